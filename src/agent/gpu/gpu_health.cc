#include "agent/gpu/gpu_health.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "agent/gpu/gpu_devices.h"
#include "base/json_reader.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

constexpr const char* kManagedBy = "app.kubernetes.io/managed-by";
constexpr const char* kAgentName = "tessera-agent";

bool is_ours(const JsonReader& object) {
  const auto metadata = object.object("metadata");
  const auto labels = metadata ? metadata->object("labels") : metadata;
  return labels && labels->text_or(kManagedBy, "").value_or("") == kAgentName;
}

// Returns the string at `map`.`name`; "" if there is none.
std::string text_below(const JsonReader& object, std::string_view map, std::string_view name) {
  const auto inside = object.object(map);
  return inside ? inside->text_or(name, "").value_or("") : "";
}

// Returns the name of the ConfigMap in which the original extenders find unhealthy GPUs.
std::string config_map_name(const std::string& node) {
  return "unhealthy-gpu-" + node;
}

}  // namespace

NodeCondition gpus_condition(const gpu::DriverState& state, const std::string& hang) {
  if (!hang.empty()) {
    return {.healthy = false, .reason = "DriverHangs", .message = cut_message(hang)};
  }
  if (!state.ready) {
    return {.healthy = false, .reason = "DriverNotReady", .message = cut_message(state.problem)};
  }
  if (state.inventory.gpus.empty() && state.problems.empty()) {
    return {.healthy = false, .reason = gpu_info().no_devices, .message = "the driver lists no GPU"};
  }
  return condition_of(gpu_info(), node_devices(state.inventory), state.problems);
}

alloc::Inventory during_hang(alloc::Inventory inventory, const std::string& hang) {
  for (alloc::Gpu& gpu : inventory.gpus) {
    if (gpu.healthy()) {
      gpu.unhealthy = hang;
    }
  }
  return inventory;
}

GpuHealthReporter::GpuHealthReporter(const NodeContext& node, const Allocations& allocations,
                                     GpuHealthReporterOptions options, const alloc::Inventory& before)
    : node_(node),
      options_(std::move(options)),
      reporter_(node, allocations,
                {.info = gpu_info(),
                 .condition = options_.condition,
                 .recheck_every = options_.recheck_every,
                 .backoff = options_.backoff},
                node_devices(before)),
      config_map_reconciler_(
          node.client,
          {.path = kube::config_map_path(options_.config_map_namespace, config_map_name(node.node)),
           .what = fmt::format("ConfigMap {}/{}", options_.config_map_namespace, config_map_name(node.node)),
           .recheck_every = options_.recheck_every,
           .backoff = options_.backoff},
          [this](const boost::json::value* object) { return config_map_change(object); }) {}

void GpuHealthReporter::set_before(const alloc::Inventory& before) {
  reporter_.set_before(node_devices(before));
}

void GpuHealthReporter::report(const gpu::DriverState& state) {
  const auto about_node = [this] { return kube::EventNote::about_node(node_.node); };
  if (state.problem != driver_problem_) {
    driver_problem_ = state.problem;
    node_.events.record(state.ready
                            ? about_node().as_normal("GpuDriverReady", "the NVIDIA driver answers again")
                            : about_node().as_warning("GpuDriverNotReady", state.problem));
  }
  // While the driver fails, that is the reason of every unhealthy GPU. It has been reported above.
  if (state.ready) {
    reporter_.report_changes(node_devices(state.inventory));
    for (const std::string& problem : state.problems) {
      if (std::ranges::find(state_.problems, problem) == state_.problems.end()) {
        node_.events.record(about_node().as_warning(gpu_info().unhealthy, problem));
      }
    }
  }
  state_ = state;
  // The first report also reconciles the ConfigMap of an earlier process.
  const bool first = !std::exchange(reported_, true);
  reporter_.set_condition(gpus_condition(state_, hang_));
  set_unhealthy_indices(during_hang(state.inventory, hang_).unhealthy_list(), first);
}

bool GpuHealthReporter::set_hang(const Status& problem) {
  // Compares only whether a call hangs. The text also says for how long, which always changes.
  const bool hangs = !problem && problem.error().code() == ErrorCode::kTimeout;
  if (hangs == !hang_.empty()) {
    return false;
  }
  hang_ = hangs ? problem.error().text() : "";
  auto about_node = kube::EventNote::about_node(node_.node);
  if (hangs) {
    log::error("driver call hangs", {{"error", hang_}});
    node_.events.record(
        std::move(about_node)
            .as_warning("GpuDriverHangs", hang_ + "; no new pods are placed on this node until it answers"));
  } else {
    log::info("driver answers again");
    node_.events.record(std::move(about_node).as_normal("GpuDriverReady", "the NVIDIA driver answers again"));
  }
  if (reported_) {
    reporter_.set_condition(gpus_condition(state_, hang_));
    set_unhealthy_indices(during_hang(state_.inventory, hang_).unhealthy_list(), /*first=*/false);
  }
  return true;
}

void GpuHealthReporter::set_unhealthy_indices(const std::string& indices, bool first) {
  if (options_.config_map && (first || indices != unhealthy_indices_)) {
    unhealthy_indices_ = indices;
    config_map_reconciler_.wake();
  }
}

// Returns the request that reconciles ConfigMap unhealthy-gpu-<node>; nullopt if it is up to date.
// `config_map` is null if it does not exist. It exists only while a GPU is unhealthy, because the
// original extenders read an empty list as GPU 0. A ConfigMap of another client is not changed.
Result<std::optional<kube::Request>> GpuHealthReporter::config_map_change(
    const boost::json::value* config_map) const {
  const std::string& namespace_name = options_.config_map_namespace;
  const std::string name = config_map_name(node_.node);
  const std::string path = kube::config_map_path(namespace_name, name);
  const boost::json::object data{{"gpus", unhealthy_indices_}};
  if (config_map == nullptr) {
    if (unhealthy_indices_.empty()) {
      return std::nullopt;
    }
    const boost::json::object made{
        {"apiVersion", "v1"},
        {"kind", "ConfigMap"},
        {"metadata", {{"name", name}, {"namespace", namespace_name}, {"labels", {{kManagedBy, kAgentName}}}}},
        {"data", data}};
    return kube::create_request(kube::config_map_path(namespace_name, ""), boost::json::serialize(made));
  }
  const JsonReader root(*config_map, name);
  if (!is_ours(root)) {
    if (unhealthy_indices_.empty() || text_below(root, "data", "gpus") == unhealthy_indices_) {
      return std::nullopt;
    }
    return fail(
        ErrorCode::kConflict,
        fmt::format("ConfigMap {}/{} was not created by {} and is not changed, so the original extenders "
                    "do not see that GPU {} is unhealthy; delete it so that the agent can write it",
                    namespace_name, name, kAgentName, unhealthy_indices_));
  }
  if (unhealthy_indices_.empty()) {
    return kube::delete_request(path, text_below(root, "metadata", "uid"));
  }
  if (text_below(root, "data", "gpus") == unhealthy_indices_) {
    return std::nullopt;
  }
  return kube::patch_request(path, boost::json::serialize(boost::json::object{{"data", data}}));
}

}  // namespace tessera::agent
