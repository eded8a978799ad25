#include "gpu_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/file.h"

namespace tessera::cli {

namespace json = boost::json;

namespace {

json::object texts(const Texts& map) {
  json::object object;
  for (const auto& [key, value] : map) {
    object[key] = value;
  }
  return object;
}

}  // namespace

void GpuCluster::node(const std::string& name, const GpuNode& node) {
  Texts labels = node.labels;
  if (!node.model.empty()) {
    labels["nvidia.com/gpu.product"] = node.model;
  }
  if (node.memory_mib != 0) {
    labels["nvidia.com/gpu.memory"] = std::to_string(node.memory_mib);
  }
  if (!node.pool.empty()) {
    labels["cloud.google.com/gke-nodepool"] = node.pool;
  }
  json::object capacity{{"cpu", node.cpu}, {"memory", node.memory}};
  if (node.gpus > 0) {
    capacity[node.resource] = std::to_string(node.gpus);
  }
  if (node.mig_devices > 0) {
    capacity["nvidia.com/mig-1g.5gb"] = std::to_string(node.mig_devices);
  }
  json::object allocatable = capacity;
  if (node.allocatable) {
    allocatable[node.resource] = std::to_string(*node.allocatable);
  }
  json::object spec;
  if (node.cordoned) {
    spec["unschedulable"] = true;
  }
  if (!node.taint.empty()) {
    spec["taints"] = json::array{json::object{{"key", node.taint}, {"effect", "NoSchedule"}}};
  }
  json::object annotations;
  if (!node.inventory.empty()) {
    annotations[alloc::key::kInventory] = node.inventory;
  }
  nodes_.push_back(json::object{
      {"metadata", json::object{{"name", name},
                                {"uid", "node-" + name},
                                {"resourceVersion", "5"},
                                {"labels", texts(labels)},
                                {"annotations", std::move(annotations)}}},
      {"spec", std::move(spec)},
      {"status",
       json::object{{"capacity", std::move(capacity)},
                    {"allocatable", std::move(allocatable)},
                    {"conditions", json::array{json::object{{"type", "Ready"}, {"status", "True"}}}}}}});
}

void GpuCluster::pod(const std::string& name, const std::string& node, const GpuPod& pod) {
  const std::size_t slash = name.find('/');
  const std::string space = name.substr(0, slash);
  const std::string short_name = name.substr(slash + 1);
  json::object limits;
  if (pod.gpus > 0) {
    limits[pod.resource] = std::to_string(pod.gpus);
  }
  json::object requests{{"cpu", pod.cpu}};
  if (!pod.memory.empty()) {
    requests["memory"] = pod.memory;
  }
  json::object resources{{"limits", std::move(limits)}, {"requests", std::move(requests)}};
  json::object spec{
      {"containers", json::array{json::object{{"name", "main"}, {"resources", std::move(resources)}}}}};
  if (!node.empty()) {
    spec["nodeName"] = node;
  }
  if (!pod.node_selector.empty()) {
    spec["nodeSelector"] = texts(pod.node_selector);
  }
  if (!pod.toleration.empty()) {
    spec["tolerations"] = json::array{json::object{{"key", pod.toleration}, {"operator", "Exists"}}};
  }
  if (!pod.affinity.is_null()) {
    spec["affinity"] = pod.affinity;
  }
  pods_.push_back(json::object{{"metadata", json::object{{"name", short_name},
                                                         {"namespace", space},
                                                         {"uid", "pod-" + name},
                                                         {"resourceVersion", "6"},
                                                         {"creationTimestamp", pod.created},
                                                         {"labels", texts(pod.labels)},
                                                         {"annotations", texts(pod.annotations)}}},
                               {"spec", std::move(spec)},
                               {"status", json::object{{"phase", pod.phase}}}});
  if (pod.memory_mib) {
    usage_ += fmt::format("{},{},{},{}\n", space, short_name, *pod.memory_mib,
                          pod.utilization ? fmt::to_string(*pod.utilization) : "");
  }
}

void GpuCluster::add_example() {
  const std::string directory = example_directory();
  const auto add = [&](const char* name, json::array& to) {
    const json::value list = json::parse(read_file(directory + name).value());
    for (const json::value& item : list.at("items").as_array()) {
      to.push_back(item);
    }
  };
  add("/nodes.json", nodes_);
  add("/pods.json", pods_);
  usage_ = read_file(directory + "/usage.csv").value();
}

std::string example_directory() {
  return std::string(TESSERA_SOURCE_DIR) + "/deploy/examples/savings";
}

void GpuCluster::reverse() {
  std::reverse(nodes_.begin(), nodes_.end());
  std::reverse(pods_.begin(), pods_.end());
}

std::string GpuCluster::usage_file() const {
  return directory_ / "usage.csv";
}

std::string GpuCluster::write() const {
  const auto list = [](const json::array& items) {
    return json::serialize(json::object{
        {"kind", "List"}, {"metadata", json::object{{"resourceVersion", "7"}}}, {"items", items}});
  };
  if (!write_file(directory_ / "nodes.json", list(nodes_)) ||
      !write_file(directory_ / "pods.json", list(pods_)) || !write_file(usage_file(), usage_)) {
    throw std::runtime_error("cannot write " + directory_.path());
  }
  return directory_.path();
}

}  // namespace tessera::cli
