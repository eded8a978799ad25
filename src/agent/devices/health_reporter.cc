#include "agent/devices/health_reporter.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <string_view>

#include "base/json_reader.h"
#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

constexpr std::size_t kMaxMessageBytes = 900;

const NodeDevice* find_device(const std::vector<NodeDevice>& devices, const std::string& id) {
  const auto found = std::ranges::find(devices, id, &NodeDevice::id);
  return found == devices.end() ? nullptr : &*found;
}

// Returns whether the cause of the reason `now` was already a part of the reason `was`.
bool is_known_cause(std::string_view was, std::string_view now) {
  constexpr std::string_view kSeparator = "; ";
  const std::string_view cause = now.substr(0, now.find(kSeparator));
  while (true) {
    const std::size_t end = was.find(kSeparator);
    if (was.substr(0, end) == cause) {
      return true;
    }
    if (end == std::string_view::npos) {
      return false;
    }
    was.remove_prefix(end + kSeparator.size());
  }
}

}  // namespace

std::string cut_message(std::string text) {
  if (text.size() > kMaxMessageBytes) {
    text.resize(kMaxMessageBytes);
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
    if (was.empty()) {
      changes.push_back({.kind = Kind::kUnhealthy, .device = device});
    } else if (device.unhealthy.empty()) {
      changes.push_back({.kind = Kind::kRecovered, .device = device});
    } else if (!is_known_cause(was, device.unhealthy)) {
      changes.push_back({.kind = Kind::kOtherReason, .device = device});
    }
  }
  return changes;
}

NodeCondition condition_of(const KindInfo& info, const std::vector<NodeDevice>& devices,
                           const std::vector<std::string>& unlisted) {
  if (devices.empty() && unlisted.empty()) {
    return {.healthy = false, .reason = info.no_devices, .message = fmt::format("there is no {}", info.one)};
  }
  std::string unhealthy;
  for (const std::string& problem : unlisted) {
    unhealthy += "; " + problem;
  }
  for (const NodeDevice& device : devices) {
    if (!device.unhealthy.empty()) {
      unhealthy += fmt::format("; {}: {}", device.description, device.unhealthy);
    }
  }
  if (unhealthy.empty()) {
    return {.healthy = true,
            .reason = info.all_healthy,
            .message = fmt::format("{} {}", devices.size(), info.many)};
  }
  const auto count =
      std::ranges::count_if(devices, [](const NodeDevice& device) { return !device.unhealthy.empty(); });
  return {.healthy = false,
          .reason = info.some_unhealthy,
          .message = cut_message(fmt::format("{} of {} {} must not be used{}",
                                             static_cast<std::size_t>(count) + unlisted.size(),
                                             devices.size() + unlisted.size(), info.many, unhealthy))};
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

HealthReporter::HealthReporter(const NodeContext& node, const Allocations& allocations,
                               HealthReporterOptions options, std::vector<NodeDevice> before)
    : node_(node),
      allocations_(allocations),
      options_(std::move(options)),
      reported_(std::move(before)),
      condition_reconciler_(
          node.client,
          {.path = kube::node_path(node.node),
           .what = fmt::format("condition {} of node {}", options_.info.condition, node.node),
           .recheck_every = options_.recheck_every,
           .backoff = options_.backoff},
          [this](const boost::json::value* object) { return reconcile(object); }) {}

Result<std::optional<kube::Request>> HealthReporter::reconcile(const boost::json::value* object) const {
  if (object == nullptr) {
    return fail(ErrorCode::kNotFound, fmt::format("node {} does not exist", node_.node));
  }
  const auto patch = TRY(condition_patch(*object, options_.info.condition,
                                         condition_.value_or(NodeCondition{}), node_.client.clock().wall()));
  if (!patch) {
    return std::nullopt;
  }
  return kube::patch_request(kube::node_path(node_.node) + "/status", *patch,
                             kube::PatchKind::kStrategicMerge);
}

void HealthReporter::report_changes(const std::vector<NodeDevice>& devices) {
  for (const HealthChange& change : health_changes(reported_, devices)) {
    report_change(change);
  }
  reported_ = devices;
}

void HealthReporter::report_change(const HealthChange& change) {
  const KindInfo& info = options_.info;
  const NodeDevice& device = change.device;
  const std::string& what = device.description;
  const auto about_node = [this] { return kube::EventNote::about_node(node_.node); };
  switch (change.kind) {
    case HealthChange::Kind::kUnhealthy:
    case HealthChange::Kind::kOtherReason:
      node_.events.record(about_node().as_warning(
          info.unhealthy, fmt::format("{} is not offered to new pods: {}", what, device.unhealthy)));
      warn_holders(device, fmt::format("{} of node {}, which this pod has, is unhealthy: {}. Delete the "
                                       "pod to have it placed on another one",
                                       what, node_.node, device.unhealthy));
      break;
    case HealthChange::Kind::kRecovered:
      node_.events.record(
          about_node().as_normal(info.healthy, fmt::format("{} is healthy and offered to pods again", what)));
      break;
    case HealthChange::Kind::kGone:
      log::warn("device is gone", {{"device", device.name}});
      node_.events.record(
          about_node().as_warning(info.gone, fmt::format("{} is no longer in this machine", what)));
      warn_holders(device, fmt::format("{}, which this pod has, is no longer in node {}. Delete the pod "
                                       "to have it placed on another one",
                                       what, node_.node));
      break;
    case HealthChange::Kind::kAppeared:
      log::info("device appeared", {{"device", device.name}});
      node_.events.record(
          about_node().as_normal(info.appeared, fmt::format("{} is new in this machine", what)));
      break;
  }
}

void HealthReporter::warn_holders(const NodeDevice& device, const std::string& message) {
  for (const kube::ObjectReference& pod : allocations_.holders_of(device.id)) {
    node_.events.record(kube::EventNote::about_pod(pod.namespace_name, pod.name, pod.uid)
                            .as_warning(options_.info.unhealthy, message));
  }
}

// The first call also reconciles the condition that an earlier process wrote.
void HealthReporter::set_condition(NodeCondition condition) {
  if (options_.condition && condition_ != condition) {
    condition_ = std::move(condition);
    condition_reconciler_.wake();
  }
}

}  // namespace tessera::agent
