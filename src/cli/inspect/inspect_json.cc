#include "cli/inspect/inspect_json.h"

#include <boost/json.hpp>

namespace tessera::cli {

namespace {

namespace json = boost::json;

json::array texts(const std::vector<std::string>& list) {
  json::array array;
  for (const std::string& text : list) {
    array.emplace_back(text);
  }
  return array;
}

json::array pods_on(const ShareNode& node, std::int64_t index, const ShareGpu& gpu) {
  json::array pods;
  for (const std::size_t i : gpu.pods) {
    const SharePod& pod = node.pods[i];
    json::object entry{{"namespace", pod.namespace_name}, {"name", pod.name}, {"units", pod.units.at(index)}};
    if (pod.whole.contains(index)) {
      entry["whole"] = true;
    }
    pods.push_back(std::move(entry));
  }
  return pods;
}

json::object share_node(const ShareNode& node) {
  json::array gpus;
  json::object pending;
  for (const auto& [index, gpu] : node.gpus) {
    if (index == kPending) {
      pending = {{"units", gpu.used}, {"pods", pods_on(node, index, gpu)}};
      continue;
    }
    json::object entry{{"index", index}};
    if (!gpu.uuid.empty()) {
      entry["uuid"] = gpu.uuid;
      entry["model"] = gpu.model;
    }
    entry["total"] = gpu.total;
    entry["allocated"] = gpu.used;
    if (!gpu.unhealthy.empty()) {
      entry["unhealthy"] = gpu.unhealthy;
    }
    if (index < 0 || index >= node.count) {
      entry["missing"] = true;  // pods name this GPU, but the node does not have it
    }
    entry["pods"] = pods_on(node, index, gpu);
    gpus.push_back(std::move(entry));
  }
  json::object object{{"name", node.name},   {"address", node.address},  {"unit", node.unit},
                      {"total", node.total}, {"allocated", node.used()}, {"gpus", std::move(gpus)}};
  if (!pending.empty()) {
    object["pending"] = std::move(pending);
  }
  return object;
}

}  // namespace

json::value shares_json(const Shares& shares, const std::vector<std::string>& warnings) {
  json::array nodes;
  std::int64_t total = 0;
  std::int64_t used = 0;
  for (const ShareNode& node : shares.nodes) {
    nodes.push_back(share_node(node));
    total = saturated_sum(total, node.total);
    used = saturated_sum(used, node.used());
  }
  return json::object{{"unit", shares.unit},
                      {"total", total},
                      {"allocated", used},
                      {"nodes", std::move(nodes)},
                      {"warnings", texts(warnings)}};
}

json::value gpus_json(const GpuNodes& all, const std::vector<std::string>& warnings) {
  json::array nodes;
  for (const GpuNode& node : all.nodes) {
    json::array gpus;
    for (const NodeGpu& gpu : node.gpus) {
      json::object entry{
          {"index", gpu.index}, {"uuid", gpu.uuid}, {"model", gpu.model}, {"use", to_string(gpu.use())}};
      if (!gpu.unhealthy.empty()) {
        entry["unhealthy"] = gpu.unhealthy;
      }
      entry["pods"] = texts(gpu.pods);
      gpus.push_back(std::move(entry));
    }
    json::array links;
    for (const std::vector<std::string>& row : node.links) {
      links.push_back(texts(row));
    }
    nodes.push_back(json::object{{"name", node.name},
                                 {"address", node.address},
                                 {"type", node.type},
                                 {"all", node.gpus.size()},
                                 {"used", node.used()},
                                 {"free", node.free()},
                                 {"gpus", std::move(gpus)},
                                 {"links", std::move(links)}});
  }
  return json::object{{"policy", all.policy}, {"nodes", std::move(nodes)}, {"warnings", texts(warnings)}};
}

}  // namespace tessera::cli
