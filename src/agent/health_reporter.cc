#include "agent/health_reporter.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

HealthReporter::HealthReporter(kube::Client& client, HealthReporterOptions options, Tell tell,
                               Holders holders, alloc::Inventory before)
    : options_(std::move(options)),
      tell_(std::move(tell)),
      holders_(std::move(holders)),
      told_(std::move(before)) {
  const std::string node_path = kube::node_path(options_.node);
  condition_keeper_ = std::make_unique<ObjectKeeper>(
      client,
      ObjectKeeperOptions{.path = node_path,
                          .what = fmt::format("condition {} of node {}", GpusCondition::kType, options_.node),
                          .look_again = options_.look_again,
                          .backoff = options_.backoff},
      [this, &client, node_path](const boost::json::value* node) -> Result<std::optional<kube::Request>> {
        if (node == nullptr) {
          return fail(ErrorCode::kNotFound, fmt::format("node {} does not exist", options_.node));
        }
        const auto patch = TRY(condition_patch(*node, condition_, client.clock().wall()));
        if (!patch) {
          return std::nullopt;
        }
        return kube::patch_request(node_path + "/status", *patch, kube::PatchKind::kStrategicMerge);
      });
  const std::string map_name = unhealthy_config_map_name(options_.node);
  config_map_keeper_ = std::make_unique<ObjectKeeper>(
      client,
      ObjectKeeperOptions{.path = kube::config_map_path(options_.config_map_namespace, map_name),
                          .what = fmt::format("ConfigMap {}/{}", options_.config_map_namespace, map_name),
                          .look_again = options_.look_again,
                          .backoff = options_.backoff},
      [this](const boost::json::value* object) {
        return mend_config_map(object, options_.config_map_namespace, options_.node, indices_);
      });
}

void HealthReporter::report(const gpu::DriverState& state) {
  if (state.problem != driver_problem_) {
    driver_problem_ = state.problem;
    if (!state.ready) {
      tell_node(true, "GpuDriverNotReady", state.problem);
    } else {
      tell_node(false, "GpuDriverReady", "the NVIDIA driver answers again");
    }
  }
  // While the driver is away every GPU is ill for that one reason, which has been told.
  if (state.ready) {
    for (const HealthChange& change : health_changes(told_, state.inventory)) {
      tell_change(change);
    }
    told_ = state.inventory;
    for (const std::string& problem : state.problems) {
      if (std::ranges::find(state_.problems, problem) == state_.problems.end()) {
        tell_node(true, "GpuUnhealthy", problem);
      }
    }
  }
  state_ = state;
  // At the first time also what an earlier process left is put right.
  const bool first = !std::exchange(began_, true);
  set_condition(first);
  set_indices(state.inventory.unhealthy_list(), first);
}

void HealthReporter::set_hang(const Status& trouble) {
  // How long it has been hanging changes from look to look and is no news.
  const bool hangs = !trouble && trouble.error().code() == ErrorCode::kTimeout;
  if (hangs == !hang_.empty()) {
    return;
  }
  hang_ = hangs ? trouble.error().text() : "";
  if (hangs) {
    log::error("driver hangs", {{"what", hang_}});
    tell_node(true, "GpuDriverHangs", hang_ + "; GPUs stay as they were last seen");
  } else {
    log::info("driver answers again");
    tell_node(false, "GpuDriverReady", "the NVIDIA driver answers again");
  }
  if (began_) {
    set_condition(false);
  }
}

void HealthReporter::tell_node(bool warning, const std::string& reason, const std::string& message) {
  // kubelet and kubectl know Events of a node under its name.
  tell_({.about = {.kind = "Node", .name = options_.node, .uid = options_.node},
         .warning = warning,
         .reason = reason,
         .message = message});
}

void HealthReporter::tell_change(const HealthChange& change) {
  const std::string gpu = describe(change.gpu);
  switch (change.kind) {
    case HealthChange::Kind::kFellIll:
    case HealthChange::Kind::kOtherReason:
      tell_node(true, "GpuUnhealthy",
                fmt::format("{} is offered to no new pod: {}", gpu, change.gpu.unhealthy));
      tell_holders(change.gpu, fmt::format("{} of node {}, which this pod has, is unhealthy: {}. Delete the "
                                           "pod to have it placed on another one",
                                           gpu, options_.node, change.gpu.unhealthy));
      break;
    case HealthChange::Kind::kRecovered:
      tell_node(false, "GpuHealthy", fmt::format("{} is well and offered to pods again", gpu));
      break;
    case HealthChange::Kind::kGone:
      log::warn("GPU is gone", {{"gpu", change.gpu.uuid}, {"index", change.gpu.index}});
      tell_node(true, "GpuGone", fmt::format("{} is no longer in this machine", gpu));
      tell_holders(change.gpu, fmt::format("{}, which this pod has, is no longer in node {}. Delete the pod "
                                           "to have it placed on another one",
                                           gpu, options_.node));
      break;
    case HealthChange::Kind::kAppeared:
      log::info("GPU is new", {{"gpu", change.gpu.uuid}, {"index", change.gpu.index}});
      tell_node(false, "GpuAppeared", fmt::format("{} is new in this machine", gpu));
      break;
  }
}

void HealthReporter::tell_holders(const alloc::Gpu& gpu, const std::string& message) {
  for (const kube::ObjectReference& pod : holders_(gpu.uuid)) {
    tell_({.about = pod, .warning = true, .reason = "GpuUnhealthy", .message = message});
  }
}

void HealthReporter::set_condition(bool first) {
  GpusCondition next = gpus_condition(state_, hang_);
  if (options_.condition && (first || next != condition_)) {
    condition_ = std::move(next);
    condition_keeper_->wake();
  }
}

void HealthReporter::set_indices(const std::string& indices, bool first) {
  if (options_.config_map && (first || indices != indices_)) {
    indices_ = indices;
    config_map_keeper_->wake();
  }
}

}  // namespace tessera::agent
