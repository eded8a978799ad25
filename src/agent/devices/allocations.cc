#include "agent/devices/allocations.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <ranges>

#include "base/json_reader.h"

namespace tessera::agent {

namespace {

constexpr std::size_t kMaxContainers = 100'000;
constexpr std::size_t kMaxIds = 300'000;
constexpr std::size_t kMaxShares = 64;  // per container, each of a different device
constexpr std::int64_t kMaxUnits = 1U << 24U;
constexpr std::ptrdiff_t kMaxEnded = 256;

boost::json::object to_json(const Allocation& allocation, const Allocations::Keys& keys) {
  boost::json::array shares;
  for (const DeviceShare& share : allocation.shares) {
    boost::json::object entry{{keys.device, share.device}};
    if (share.whole) {
      entry["whole"] = true;
    } else {
      entry[keys.units] = share.units;
    }
    if (share.core_percent > 0) {
      entry["core"] = share.core_percent;
    }
    shares.push_back(std::move(entry));
  }
  boost::json::object ids;
  for (const auto& [resource, list] : allocation.ids) {
    ids[resource] = boost::json::array(list.begin(), list.end());
  }
  boost::json::object json{{"namespace", allocation.pod.namespace_name},
                           {"pod", allocation.pod.name},
                           {"uid", allocation.pod_uid},
                           {"container", allocation.container},
                           {"grants", std::move(shares)},
                           {"ids", std::move(ids)}};
  if (!allocation.cdi_names.empty()) {
    boost::json::object names;
    for (const auto& [resource, name] : allocation.cdi_names) {
      names[resource] = name;
    }
    json["cdi"] = std::move(names);
  }
  if (!allocation.fixed.empty()) {
    json["fixed"] = allocation.fixed;
  }
  if (!allocation.fault.empty()) {
    json["fault"] = allocation.fault;
  }
  if (!allocation.start_block.empty()) {
    json["held"] = allocation.start_block;
  }
  if (allocation.guessed) {
    json["guessed"] = true;
  }
  if (allocation.started) {
    json["started"] = true;
  }
  return json;
}

Result<Allocation> from_json(const JsonReader& json, const Allocations::Keys& keys) {
  Allocation allocation;
  allocation.pod.namespace_name = TRY(json.text("namespace"));
  allocation.pod.name = TRY(json.text("pod"));
  allocation.pod_uid = TRY(json.text("uid"));
  allocation.container = TRY(json.text("container"));
  allocation.start_block = TRY(json.text_or("held", ""));
  allocation.fixed = TRY(json.text_or("fixed", ""));
  allocation.fault = TRY(json.text_or("fault", ""));
  allocation.guessed = TRY(json.boolean_or("guessed", false));
  allocation.started = TRY(json.boolean_or("started", false));
  if (json.has("cdi")) {
    const JsonReader names = TRY(json.object("cdi"));
    for (const auto& [resource, name] : TRY(names.as_object(16))) {
      allocation.cdi_names[resource] = TRY(name.as_text());
    }
  }
  for (const JsonReader& entry : TRY(json.array("grants", kMaxShares))) {
    DeviceShare share;
    share.device = TRY(entry.text(keys.device));
    share.whole = TRY(entry.boolean_or("whole", false));
    share.units = static_cast<std::uint32_t>(TRY(entry.integer_or(keys.units, 0, kMaxUnits, 0)));
    share.core_percent = static_cast<std::uint32_t>(TRY(entry.integer_or("core", 0, 100, 0)));
    allocation.shares.push_back(std::move(share));
  }
  const JsonReader held_ids = TRY(json.object("ids"));
  for (const auto& [resource, list] : TRY(held_ids.as_object(16))) {
    auto& ids = allocation.ids[resource];
    for (const JsonReader& id : TRY(list.as_array(kMaxIds))) {
      ids.push_back(TRY(id.as_text()));
    }
    std::ranges::sort(ids);
  }
  return allocation;
}

}  // namespace

std::string unknown_uid(const std::string& resource, const std::vector<std::string>& ids) {
  return fmt::format("{}{}/{}", kUnknownPod, resource, ids.empty() ? "" : ids.front());
}

Allocation moved_to(const ContainerName& to, const Allocation& from, const std::string& resource) {
  Allocation moved{.pod = to.pod, .pod_uid = to.pod_uid, .container = to.container, .shares = from.shares};
  moved.fixed = from.fixed;
  moved.fault = from.fault;
  if (const auto ids = from.ids.find(resource); ids != from.ids.end()) {
    moved.ids.insert(*ids);
  }
  if (const auto name = from.cdi_names.find(resource); name != from.cdi_names.end()) {
    moved.cdi_names.insert(*name);
  }
  return moved;
}

Status Allocations::parse(std::string_view text) {
  const boost::json::value document = TRY(parse_json(text, kMaxBytes));
  const JsonReader root(document, "allocations");
  TRY(root.integer("v", 1, 1));
  decltype(pods_) pods;
  for (const JsonReader& entry : TRY(root.array("allocations", kMaxContainers))) {
    Allocation allocation = TRY(from_json(entry, keys_));
    auto& containers = pods[allocation.pod_uid];
    const std::string container = allocation.container;
    containers.insert_or_assign(container, std::move(allocation));
  }
  pods_ = std::move(pods);
  return {};
}

std::string Allocations::json() const {
  boost::json::array list;
  for (const auto& [uid, containers] : pods_) {
    for (const auto& [name, allocation] : containers) {
      list.push_back(to_json(allocation, keys_));
    }
  }
  return boost::json::serialize(boost::json::object{{"v", 1}, {"allocations", std::move(list)}}) + "\n";
}

void Allocations::record(const Allocation& allocation) {
  Allocation& kept = pods_[allocation.pod_uid][allocation.container];
  auto ids = std::move(kept.ids);
  auto cdi_names = std::move(kept.cdi_names);
  const bool guessed = kept.guessed || allocation.guessed;
  const bool started = kept.started || allocation.started;
  kept = allocation;
  kept.guessed = guessed;
  kept.started = started;
  for (auto& [resource, list] : kept.ids) {
    std::ranges::sort(list);
  }
  kept.ids.merge(ids);
  kept.cdi_names.merge(cdi_names);
  changed_ = true;
}

void Allocations::set_start_block(const std::string& pod_uid, const std::string& container,
                                  std::string message) {
  Allocation* found = find_mutable(pod_uid, container);
  if (found != nullptr && found->start_block != message) {
    found->start_block = std::move(message);
    changed_ = true;
  }
}

void Allocations::set_started(const std::string& pod_uid, const std::string& container, bool started) {
  Allocation* found = find_mutable(pod_uid, container);
  if (found != nullptr && std::exchange(found->started, started) != started) {
    changed_ = true;
  }
}

void Allocations::confirm(const std::string& pod_uid, const std::string& container) {
  Allocation* found = find_mutable(pod_uid, container);
  if (found != nullptr && std::exchange(found->guessed, false)) {
    changed_ = true;
  }
}

void Allocations::forget(const std::string& pod_uid) {
  const auto pod = pods_.find(pod_uid);
  if (pod == pods_.end()) {
    return;
  }
  for (auto& [name, allocation] : pod->second) {
    if (allocation.started && !allocation.shares.empty()) {
      ended_.push_back({.allocation = std::move(allocation), .at = Clock::real().now()});
    }
  }
  if (std::ssize(ended_) > kMaxEnded) {
    ended_.erase(ended_.begin(), ended_.end() - kMaxEnded);
  }
  pods_.erase(pod);
  changed_ = true;
}

bool Allocations::has_started(const alloc::PodSpec& pod) const {
  return std::ranges::any_of(pod.containers, [&](const alloc::ContainerSpec& container) {
    const Allocation* allocation = find(pod.uid, container.name);
    return allocation != nullptr && !allocation->shares.empty() &&
           (allocation->started || container.ran_before ||
            container.state != alloc::ContainerState::kNotStarted);
  });
}

const Allocation* Allocations::find(const std::string& pod_uid, const std::string& container) const {
  const auto pod = pods_.find(pod_uid);
  if (pod == pods_.end()) {
    return nullptr;
  }
  const auto found = pod->second.find(container);
  return found == pod->second.end() ? nullptr : &found->second;
}

Allocation* Allocations::find_mutable(const std::string& pod_uid, const std::string& container) {
  return const_cast<Allocation*>(find(pod_uid, container));
}

bool Allocations::has(const std::string& pod_uid, const std::string& container,
                      const std::string& resource) const {
  const Allocation* allocation = find(pod_uid, container);
  return allocation != nullptr && allocation->ids.contains(resource);
}

std::vector<const Allocation*> Allocations::with_ids(const std::string& resource,
                                                     const std::vector<std::string>& ids) const {
  std::vector<const Allocation*> found;
  for (const auto& [uid, containers] : pods_) {
    for (const auto& [name, allocation] : containers) {
      const auto held = allocation.ids.find(resource);
      if (held != allocation.ids.end() && held->second == ids) {
        found.push_back(&allocation);
      }
    }
  }
  return found;
}

bool Allocations::has_cdi_name(const std::string& name) const {
  return std::ranges::any_of(pods_, [&](const auto& pod) {
    return std::ranges::any_of(pod.second, [&](const auto& entry) {
      const auto names = std::views::values(entry.second.cdi_names);
      return std::ranges::find(names, name) != names.end();
    });
  });
}

std::vector<Allocations::HeldId> Allocations::held_ids(const std::string& resource) const {
  std::vector<HeldId> held;
  for (const auto& [uid, containers] : pods_) {
    for (const auto& [name, allocation] : containers) {
      if (const auto ids = allocation.ids.find(resource); ids != allocation.ids.end()) {
        for (const std::string& id : ids->second) {
          held.push_back({.allocation = &allocation, .id = &id});
        }
      }
    }
  }
  return held;
}

std::vector<kube::ObjectReference> Allocations::holders_of(const std::string& device) const {
  std::vector<kube::ObjectReference> holders;
  for (const auto& [uid, containers] : pods_) {
    const auto has_device = [&](const auto& entry) {
      const std::vector<DeviceShare>& shares = entry.second.shares;
      return std::ranges::find(shares, device, &DeviceShare::device) != shares.end();
    };
    const auto found = std::ranges::find_if(containers, has_device);
    if (is_unknown_pod(uid) || found == containers.end()) {
      continue;
    }
    const PodName& pod = found->second.pod;
    holders.push_back({.kind = "Pod", .namespace_name = pod.namespace_name, .name = pod.name, .uid = uid});
  }
  return holders;
}

std::vector<Allocation> Allocations::all() const {
  std::vector<Allocation> list;
  for (const auto& [uid, containers] : pods_) {
    for (const auto& [name, allocation] : containers) {
      list.push_back(allocation);
    }
  }
  return list;
}

std::size_t Allocations::size() const {
  std::size_t count = 0;
  for (const auto& [uid, containers] : pods_) {
    count += containers.size();
  }
  return count;
}

}  // namespace tessera::agent
