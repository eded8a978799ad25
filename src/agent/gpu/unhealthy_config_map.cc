#include "agent/gpu/unhealthy_config_map.h"

#include <fmt/core.h>

#include <boost/json.hpp>

#include "base/json_reader.h"

namespace tessera::agent {

namespace {

constexpr const char* kManagedBy = "app.kubernetes.io/managed-by";
constexpr const char* kOurselves = "tessera-agent";

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
