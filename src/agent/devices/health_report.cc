#include "agent/devices/health_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/json_reader.h"

namespace tessera::agent {

namespace {

constexpr std::size_t kMostMessageBytes = 900;

const NodeDevice* find_device(const std::vector<NodeDevice>& devices, const std::string& id) {
  const auto found = std::ranges::find(devices, id, &NodeDevice::id);
  return found == devices.end() ? nullptr : &*found;
}

}  // namespace

std::string cut_message(std::string text) {
  if (text.size() > kMostMessageBytes) {
    text.resize(kMostMessageBytes);
    text += "...";
  }
  return text;
}

std::vector<HealthChange> health_changes(const std::vector<NodeDevice>& before,
                                         const std::vector<NodeDevice>& after) {
  using Kind = HealthChange::Kind;
  std::vector<HealthChange> changes;
  for (const NodeDevice& device : before) {
    if (find_device(after, device.id) == nullptr) {
      changes.push_back({.kind = Kind::kGone, .device = device});
    }
  }
  for (const NodeDevice& device : after) {
    const NodeDevice* known = find_device(before, device.id);
    const std::string was = known == nullptr ? "" : known->unhealthy;
    if (known == nullptr && !before.empty()) {
      changes.push_back({.kind = Kind::kAppeared, .device = device});
    }
    if (was == device.unhealthy) {
      continue;
    }
    const Kind kind = was.empty()                ? Kind::kFellIll
                      : device.unhealthy.empty() ? Kind::kRecovered
                                                 : Kind::kOtherReason;
    changes.push_back({.kind = kind, .device = device});
  }
  return changes;
}

NodeCondition condition_of(const KindWords& words, const std::vector<NodeDevice>& devices,
                           const std::vector<std::string>& unlisted) {
  if (devices.empty() && unlisted.empty()) {
    return {
        .healthy = false, .reason = words.none_there, .message = fmt::format("there is no {}", words.one)};
  }
  std::string ill;
  for (const std::string& problem : unlisted) {
    ill += "; " + problem;
  }
  for (const NodeDevice& device : devices) {
    if (!device.unhealthy.empty()) {
      ill += fmt::format("; {}: {}", device.description, device.unhealthy);
    }
  }
  if (ill.empty()) {
    return {.healthy = true,
            .reason = words.all_healthy,
            .message = fmt::format("{} {}", devices.size(), words.many)};
  }
  const auto count =
      std::ranges::count_if(devices, [](const NodeDevice& device) { return !device.unhealthy.empty(); });
  return {.healthy = false,
          .reason = words.some_unhealthy,
          .message = cut_message(fmt::format("{} of {} {} must not be used{}",
                                             static_cast<std::size_t>(count) + unlisted.size(),
                                             devices.size() + unlisted.size(), words.many, ill))};
}

Result<std::optional<std::string>> condition_patch(const boost::json::value& node, const std::string& type,
                                                   const NodeCondition& condition, Clock::Wall now) {
  const std::string status = condition.healthy ? "True" : "False";
  const std::string time = rfc3339_seconds(now);
  boost::json::object wanted{{"type", type},
                             {"status", status},
                             {"reason", condition.reason},
                             {"message", condition.message},
                             {"lastHeartbeatTime", time}};
  bool same_status = false;
  const JsonReader root(node, "node");
  if (root.has("status")) {
    const JsonReader inside = TRY(root.object("status"));
    const auto conditions =
        inside.has("conditions") ? TRY(inside.array("conditions", 1'000)) : std::vector<JsonReader>{};
    for (const JsonReader& one : conditions) {
      if (one.text_or("type", "").value_or("") != type) {
        continue;
      }
      same_status = one.text_or("status", "").value_or("") == status;
      if (same_status && one.text_or("reason", "").value_or("") == condition.reason &&
          one.text_or("message", "").value_or("") == condition.message) {
        return std::nullopt;
      }
    }
  }
  if (!same_status) {
    wanted["lastTransitionTime"] = time;
  }
  boost::json::array conditions;
  conditions.push_back(std::move(wanted));
  return boost::json::serialize(
      boost::json::object{{"status", boost::json::object{{"conditions", std::move(conditions)}}}});
}

}  // namespace tessera::agent
