#include "agent/gpu/gpu_health.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "agent/gpu/gpu_text.h"
#include "agent/gpu/unhealthy_config_map.h"
#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

NodeCondition gpus_condition(const gpu::DriverState& state, const std::string& hang) {
  if (!hang.empty()) {
    return {.healthy = false, .reason = "DriverHangs", .message = cut_message(hang)};
  }
  if (!state.ready) {
    return {.healthy = false, .reason = "DriverNotReady", .message = cut_message(state.problem)};
  }
  if (state.inventory.gpus.empty() && state.problems.empty()) {
    return {.healthy = false, .reason = gpu_words().none_there, .message = "the driver lists no GPU"};
  }
  return condition_of(gpu_words(), node_devices(state.inventory), state.problems);
}

GpuHealth::GpuHealth(kube::Client& client, GpuHealthOptions options, HealthReporter::Tell tell,
                     HealthReporter::Holders holders, const alloc::Inventory& before)
    : options_(std::move(options)),
      reporter_(client,
                {.node = options_.node,
                 .words = gpu_words(),
                 .condition = options_.condition,
                 .look_again = options_.look_again,
                 .backoff = options_.backoff},
                std::move(tell), std::move(holders), node_devices(before)),
      config_map_keeper_(
          client,
          {.path =
               kube::config_map_path(options_.config_map_namespace, unhealthy_config_map_name(options_.node)),
           .what = fmt::format("ConfigMap {}/{}", options_.config_map_namespace,
                               unhealthy_config_map_name(options_.node)),
           .look_again = options_.look_again,
           .backoff = options_.backoff},
          [this](const boost::json::value* object) {
            return mend_config_map(object, options_.config_map_namespace, options_.node, indices_);
          }) {}

void GpuHealth::set_before(const alloc::Inventory& before) {
  reporter_.set_before(node_devices(before));
}

void GpuHealth::report(const gpu::DriverState& state) {
  if (state.problem != driver_problem_) {
    driver_problem_ = state.problem;
    if (!state.ready) {
      reporter_.tell_node(true, "GpuDriverNotReady", state.problem);
    } else {
      reporter_.tell_node(false, "GpuDriverReady", "the NVIDIA driver answers again");
    }
  }
  // While the driver is away every GPU is ill for that one reason, which has been told.
  if (state.ready) {
    reporter_.tell_changes(node_devices(state.inventory));
    for (const std::string& problem : state.problems) {
      if (std::ranges::find(state_.problems, problem) == state_.problems.end()) {
        reporter_.tell_node(true, gpu_words().unhealthy, problem);
      }
    }
  }
  state_ = state;
  // At the first time also what an earlier process left is put right.
  const bool first = !std::exchange(began_, true);
  reporter_.set_condition(gpus_condition(state_, hang_));
  set_indices(state.inventory.unhealthy_list(), first);
}

void GpuHealth::set_hang(const Status& trouble) {
  // How long it has been hanging changes from look to look and is no news.
  const bool hangs = !trouble && trouble.error().code() == ErrorCode::kTimeout;
  if (hangs == !hang_.empty()) {
    return;
  }
  hang_ = hangs ? trouble.error().text() : "";
  if (hangs) {
    log::error("driver hangs", {{"what", hang_}});
    reporter_.tell_node(true, "GpuDriverHangs", hang_ + "; GPUs stay as they were last seen");
  } else {
    log::info("driver answers again");
    reporter_.tell_node(false, "GpuDriverReady", "the NVIDIA driver answers again");
  }
  if (began_) {
    reporter_.set_condition(gpus_condition(state_, hang_));
  }
}

void GpuHealth::set_indices(const std::string& indices, bool first) {
  if (options_.config_map && (first || indices != indices_)) {
    indices_ = indices;
    config_map_keeper_.wake();
  }
}

}  // namespace tessera::agent
