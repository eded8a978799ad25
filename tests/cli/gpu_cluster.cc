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
  json::object capacity{{"cpu", node.cpu}, {"memory", "128Gi"}};
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
  json::object resources{{"limits", std::move(limits)}, {"requests", json::object{{"cpu", pod.cpu}}}};
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

void fill_gpu_cluster(GpuCluster& cluster) {
  for (int i = 1; i <= 6; ++i) {
    cluster.node(fmt::format("inference-{}", i), {.gpus = 4, .pool = "inference"});
  }
  for (int i = 1; i <= 2; ++i) {
    cluster.node(
        fmt::format("training-{}", i),
        {.gpus = 8, .model = "NVIDIA-A100-SXM4-80GB", .memory_mib = 81920, .pool = "training", .cpu = "128"});
    cluster.node(fmt::format("notebooks-{}", i),
                 {.gpus = 4, .model = "NVIDIA-A10G", .memory_mib = 23028, .pool = "notebooks"});
  }
  // 18 single-GPU pods fill inference-1 to inference-4 and half of inference-5.
  int next = 0;
  const auto infer = [&](const std::string& name, double memory_mib, double utilization) {
    cluster.pod("serving/" + name, fmt::format("inference-{}", next++ / 4 + 1),
                {.cpu = "2", .memory_mib = memory_mib, .utilization = utilization});
  };
  infer("video-0", 7200, 71);
  infer("llm-0", 15700, 12);
  infer("asr-0", 9000, 35);
  infer("asr-1", 9000, 35);
  for (int i = 0; i < 4; ++i) {
    infer(fmt::format("embed-{}", i), 5000, 22);
  }
  for (int i = 0; i < 10; ++i) {
    infer(fmt::format("ranker-{}", i), 2400, 6);
  }
  cluster.pod("research/pretrain-0", "training-1",
              {.gpus = 8, .cpu = "64", .memory_mib = 71000, .utilization = 96});
  cluster.pod("research/finetune-0", "training-2",
              {.gpus = 4, .cpu = "32", .memory_mib = 60000, .utilization = 88});
  cluster.pod("research/finetune-1", "training-2",
              {.gpus = 4, .cpu = "32", .memory_mib = 61000, .utilization = 84});
  for (int i = 0; i < 4; ++i) {
    cluster.pod(fmt::format("lab/notebook-{}", i), "notebooks-1",
                {.cpu = "4", .memory_mib = 900, .utilization = 0.2});
  }
  cluster.pod("lab/notebook-4", "notebooks-2", {.cpu = "4", .memory_mib = 8000, .utilization = 30});
  cluster.pod("lab/notebook-5", "notebooks-2", {.cpu = "4"});
  cluster.pod("monitoring/collector", "inference-3", {.gpus = 0, .cpu = "2"});
}

}  // namespace tessera::cli
