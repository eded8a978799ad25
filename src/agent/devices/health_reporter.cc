#include "agent/devices/health_reporter.h"

#include <fmt/core.h>

#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

HealthReporter::HealthReporter(kube::Client& client, HealthReporterOptions options, Tell tell,
                               Holders holders, std::vector<NodeDevice> before)
    : options_(std::move(options)),
      tell_(std::move(tell)),
      holders_(std::move(holders)),
      told_(std::move(before)),
      condition_keeper_(
          client,
          {.path = kube::node_path(options_.node),
           .what = fmt::format("condition {} of node {}", options_.words.condition, options_.node),
           .look_again = options_.look_again,
           .backoff = options_.backoff},
          [this, &client](const boost::json::value* node) { return mend(node, client.clock().wall()); }) {}

Result<std::optional<kube::Request>> HealthReporter::mend(const boost::json::value* node,
                                                          Clock::Wall now) const {
  if (node == nullptr) {
    return fail(ErrorCode::kNotFound, fmt::format("node {} does not exist", options_.node));
  }
  const auto patch =
      TRY(condition_patch(*node, options_.words.condition, condition_.value_or(NodeCondition{}), now));
  if (!patch) {
    return std::nullopt;
  }
  return kube::patch_request(kube::node_path(options_.node) + "/status", *patch,
                             kube::PatchKind::kStrategicMerge);
}

void HealthReporter::tell_node(bool warning, const std::string& reason, const std::string& message) {
  // kubelet and kubectl know Events of a node under its name.
  tell_({.about = {.kind = "Node", .name = options_.node, .uid = options_.node},
         .warning = warning,
         .reason = reason,
         .message = message});
}

void HealthReporter::tell_changes(const std::vector<NodeDevice>& devices) {
  for (const HealthChange& change : health_changes(told_, devices)) {
    tell_change(change);
  }
  told_ = devices;
}

void HealthReporter::tell_change(const HealthChange& change) {
  const KindWords& words = options_.words;
  const NodeDevice& device = change.device;
  const std::string& what = device.description;
  switch (change.kind) {
    case HealthChange::Kind::kFellIll:
    case HealthChange::Kind::kOtherReason:
      tell_node(true, words.unhealthy,
                fmt::format("{} is offered to no new pod: {}", what, device.unhealthy));
      tell_holders(device, fmt::format("{} of node {}, which this pod has, is unhealthy: {}. Delete the "
                                       "pod to have it placed on another one",
                                       what, options_.node, device.unhealthy));
      break;
    case HealthChange::Kind::kRecovered:
      tell_node(false, words.healthy, fmt::format("{} is well and offered to pods again", what));
      break;
    case HealthChange::Kind::kGone:
      log::warn(fmt::format("{} is gone", words.one), {{"device", device.name}});
      tell_node(true, words.gone, fmt::format("{} is no longer in this machine", what));
      tell_holders(device, fmt::format("{}, which this pod has, is no longer in node {}. Delete the pod "
                                       "to have it placed on another one",
                                       what, options_.node));
      break;
    case HealthChange::Kind::kAppeared:
      log::info(fmt::format("{} is new", words.one), {{"device", device.name}});
      tell_node(false, words.appeared, fmt::format("{} is new in this machine", what));
      break;
  }
}

void HealthReporter::tell_holders(const NodeDevice& device, const std::string& message) {
  for (const kube::ObjectReference& pod : holders_(device.id)) {
    tell_({.about = pod, .warning = true, .reason = options_.words.unhealthy, .message = message});
  }
}

// At the first time also what an earlier process left is put right.
void HealthReporter::set_condition(NodeCondition condition) {
  if (options_.condition && condition_ != condition) {
    condition_ = std::move(condition);
    condition_keeper_.wake();
  }
}

}  // namespace tessera::agent
