#include "agent/health_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/json_reader.h"

namespace tessera::agent {

namespace {

constexpr std::size_t kMostMessageBytes = 900;
constexpr const char* kManagedBy = "app.kubernetes.io/managed-by";
constexpr const char* kOurselves = "tessera-agent";

std::string cut(std::string text) {
  if (text.size() > kMostMessageBytes) {
    text.resize(kMostMessageBytes);
    text += "...";
  }
  return text;
}

bool is_ours(const JsonReader& object) {
  const auto metadata = object.object("metadata");
  const auto labels = metadata ? metadata->object("labels") : metadata;
  return labels && labels->text_or(kManagedBy, "").value_or("") == kOurselves;
}

std::string text_below(const JsonReader& object, std::string_view map, std::string_view name) {
  const auto inside = object.object(map);
  return inside ? inside->text_or(name, "").value_or("") : "";
}

}  // namespace

std::string describe(const alloc::Gpu& gpu) {
  return gpu.model.empty() ? fmt::format("GPU {} ({})", gpu.index, gpu.uuid)
                           : fmt::format("GPU {} ({}, {})", gpu.index, gpu.model, gpu.uuid);
}

std::vector<HealthChange> health_changes(const alloc::Inventory& before, const alloc::Inventory& after) {
  using Kind = HealthChange::Kind;
  std::vector<HealthChange> changes;
  for (const alloc::Gpu& gpu : before.gpus) {
    if (!after.find_uuid(gpu.uuid)) {
      changes.push_back({.kind = Kind::kGone, .gpu = gpu});
    }
  }
  for (const alloc::Gpu& gpu : after.gpus) {
    const auto known = before.find_uuid(gpu.uuid);
    const std::string& was = known ? before.gpus[*known].unhealthy : "";
    if (!known && !before.gpus.empty()) {
      changes.push_back({.kind = Kind::kAppeared, .gpu = gpu});
    }
    if (was == gpu.unhealthy) {
      continue;
    }
    const Kind kind = was.empty() ? Kind::kFellIll : gpu.healthy() ? Kind::kRecovered : Kind::kOtherReason;
    changes.push_back({.kind = kind, .gpu = gpu});
  }
  return changes;
}

GpusCondition gpus_condition(const gpu::DriverState& state, const std::string& hang) {
  if (!hang.empty()) {
    return {.healthy = false, .reason = "DriverHangs", .message = cut(hang)};
  }
  if (!state.ready) {
    return {.healthy = false, .reason = "DriverNotReady", .message = cut(state.problem)};
  }
  const std::vector<alloc::Gpu>& gpus = state.inventory.gpus;
  if (gpus.empty() && state.problems.empty()) {
    return {.healthy = false, .reason = "NoGPUs", .message = "the driver lists no GPU"};
  }
  std::string ill;
  // GPUs of which not even the UUID is known.
  for (const std::string& problem : state.problems) {
    ill += "; " + problem;
  }
  for (const alloc::Gpu& gpu : gpus) {
    if (!gpu.healthy()) {
      ill += fmt::format("; {}: {}", describe(gpu), gpu.unhealthy);
    }
  }
  if (ill.empty()) {
    return {.healthy = true, .reason = "AllGPUsHealthy", .message = fmt::format("{} GPUs", gpus.size())};
  }
  const auto count = std::ranges::count_if(gpus, [](const alloc::Gpu& gpu) { return !gpu.healthy(); });
  return {.healthy = false,
          .reason = "GPUUnhealthy",
          .message = cut(fmt::format("{} of {} GPUs must not be used{}",
                                     static_cast<std::size_t>(count) + state.problems.size(),
                                     gpus.size() + state.problems.size(), ill))};
}

Result<std::optional<std::string>> condition_patch(const boost::json::value& node,
                                                   const GpusCondition& condition, Clock::Wall now) {
  const std::string status = condition.healthy ? "True" : "False";
  const std::string time = rfc3339_seconds(now);
  boost::json::object wanted{{"type", GpusCondition::kType},
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
      if (one.text_or("type", "").value_or("") != GpusCondition::kType) {
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

std::string unhealthy_config_map_name(const std::string& node) {
  return "unhealthy-gpu-" + node;
}

Result<std::optional<kube::Request>> mend_config_map(const boost::json::value* config_map,
                                                     const std::string& namespace_name,
                                                     const std::string& node, const std::string& indices) {
  const std::string name = unhealthy_config_map_name(node);
  const std::string path = kube::config_map_path(namespace_name, name);
  const boost::json::object data{{"gpus", indices}};
  if (config_map == nullptr) {
    if (indices.empty()) {
      return std::nullopt;
    }
    const boost::json::object made{
        {"apiVersion", "v1"},
        {"kind", "ConfigMap"},
        {"metadata", {{"name", name}, {"namespace", namespace_name}, {"labels", {{kManagedBy, kOurselves}}}}},
        {"data", data}};
    return kube::create_request(kube::config_map_path(namespace_name, ""), boost::json::serialize(made));
  }
  const JsonReader root(*config_map, name);
  if (!is_ours(root)) {
    if (indices.empty() || text_below(root, "data", "gpus") == indices) {
      return std::nullopt;
    }
    return fail(
        ErrorCode::kConflict,
        fmt::format("ConfigMap {}/{} was not made by {}; it is left as it is, so old extenders do not "
                    "learn that GPU {} must not be used. Delete it to let the agent write it",
                    namespace_name, name, kOurselves, indices));
  }
  if (indices.empty()) {
    return kube::delete_request(path, text_below(root, "metadata", "uid"));
  }
  if (text_below(root, "data", "gpus") == indices) {
    return std::nullopt;
  }
  return kube::patch_request(path, boost::json::serialize(boost::json::object{{"data", data}}));
}

}  // namespace tessera::agent
