#include "agent/devices/id_choice.h"

#include <algorithm>
#include <map>
#include <set>

namespace tessera::agent {

namespace {

// Orders shorter IDs first: 9 before 10.
bool comes_before(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

class Choice {
 public:
  Choice(const Preference& preference, const DeviceKind& kind, const std::set<std::string>& held)
      : size_(preference.size), kind_(kind) {
    for (const std::string& id : preference.must_include) {
      take(id);
    }
    std::vector<std::string> available = preference.available;
    std::ranges::sort(available, comes_before);
    for (std::string& id : available) {
      if (!taken_.contains(id)) {
        auto& group = (held.contains(id) ? held_ : free_)[group_of(id)];
        group.push_back(std::move(id));
      }
    }
  }

  [[nodiscard]] std::size_t open() const { return size_ - std::min(size_, chosen_.size()); }

  void take_of(const std::string& device, std::size_t count) {
    const auto missing = [&] { return count - std::min(count, taken_by_device_[device]); };
    take_from(free_[device], missing());
    // The device has no free ID. kubelet offers the held ones, so their pod has ended: kubelet
    // knows that before the agent does.
    take_from(held_[device], missing());
  }

  // Takes the missing IDs from the devices with the most free IDs. Pods that are packed on the
  // other devices will need the IDs of those.
  void fill() {
    while (open() > 0) {
      const auto most =
          std::ranges::max_element(free_, {}, [](const auto& entry) { return entry.second.size(); });
      if (most == free_.end() || most->second.empty()) {
        break;
      }
      take_from(most->second, open());
    }
    for (auto& [device, group] : held_) {
      take_from(group, open());
    }
  }

  [[nodiscard]] std::vector<std::string> chosen() && { return std::move(chosen_); }

 private:
  [[nodiscard]] std::string group_of(const std::string& id) const { return kind_.device_of(id).value_or(""); }

  void take(const std::string& id) {
    if (taken_.insert(id).second) {
      ++taken_by_device_[group_of(id)];
      chosen_.push_back(id);
    }
  }

  void take_from(std::vector<std::string>& group, std::size_t count) {
    const std::size_t number = std::min({count, group.size(), open()});
    for (std::size_t i = 0; i < number; ++i) {
      take(group[i]);
    }
    group.erase(group.begin(), group.begin() + static_cast<std::ptrdiff_t>(number));
  }

  std::size_t size_;
  const DeviceKind& kind_;
  std::vector<std::string> chosen_;
  std::set<std::string> taken_;
  std::map<std::string, std::size_t> taken_by_device_;
  std::map<std::string, std::vector<std::string>> free_;  // by device
  std::map<std::string, std::vector<std::string>> held_;
};

}  // namespace

std::vector<std::string> choose_ids(const Preference& preference, const WantedIds& wanted,
                                    const DeviceKind& kind, const std::set<std::string>& held) {
  Choice choice(preference, kind, held);
  for (const auto& [device, count] : wanted) {
    choice.take_of(device, count);
  }
  choice.fill();
  return std::move(choice).chosen();
}

}  // namespace tessera::agent
