// Builds small clusters for tests: one line per node or pod.
#pragma once

#include <fmt/core.h>

#include <string>
#include <vector>

#include "alloc/inventory.h"
#include "alloc/ledger.h"
#include "alloc/node.h"
#include "alloc/placer.h"
#include "alloc/pod.h"

namespace tessera::alloc::testing {

// The UUID of a GPU of a test node.
inline std::string uuid_of(const std::string& node, unsigned index) {
  return fmt::format("GPU-{}-{}", node, index);
}

// An inventory of GPUs with these sizes in GiB, without links.
inline Inventory inventory_of(const std::string& node, const std::vector<std::uint32_t>& gib) {
  Inventory inventory;
  inventory.driver = "550.54.15";
  for (unsigned i = 0; i < gib.size(); ++i) {
    inventory.gpus.push_back({.uuid = uuid_of(node, i),
                              .index = i,
                              .minor = static_cast<std::int32_t>(i),
                              .model = gib[i] > 16 ? "NVIDIA A100-SXM4-80GB" : "Tesla T4",
                              .memory_mib = gib[i] * 1024});
  }
  inventory.topology = topology::Topology(static_cast<unsigned>(gib.size()));
  return inventory;
}

inline NodeSpec node_with(const std::string& name, const Inventory& inventory) {
  NodeSpec node;
  node.name = name;
  node.inventory = inventory.json();
  node.cpu_milli = 64'000;
  node.memory_bytes = std::int64_t{256} << 30;
  return node;
}

inline NodeSpec node_of(const std::string& name, const std::vector<std::uint32_t>& gib) {
  return node_with(name, inventory_of(name, gib));
}

// A node with the original device plugin.
inline NodeSpec original_node(const std::string& name, std::int64_t units, std::int64_t gpus) {
  NodeSpec node;
  node.name = name;
  node.gpu_memory_units = units;
  node.gpu_count = gpus;
  return node;
}

inline ContainerSpec container(const std::string& name, std::int64_t units, std::int64_t whole = 0,
                               ContainerKind kind = ContainerKind::kMain) {
  ContainerSpec spec;
  spec.name = name;
  spec.kind = kind;
  if (units > 0) {
    spec.gpu_limits.emplace_back(GpuResource::kMemory, Quantity::units(units));
  }
  if (whole > 0) {
    spec.gpu_limits.emplace_back(GpuResource::kWhole, Quantity::units(whole));
  }
  return spec;
}

inline PodSpec pod_of(const std::string& name, std::vector<ContainerSpec> containers) {
  PodSpec pod;
  pod.namespace_name = "ml";
  pod.name = name;
  pod.uid = "uid-" + name;
  pod.containers = std::move(containers);
  return pod;
}
inline PodSpec share_pod(const std::string& name, std::int64_t units) {
  return pod_of(name, {container("main", units)});
}
inline PodSpec whole_pod(const std::string& name, std::int64_t gpus) {
  return pod_of(name, {container("main", 0, gpus)});
}

inline PodKey key_of(const PodSpec& pod) {
  return {.namespace_name = pod.namespace_name, .name = pod.name, .uid = pod.uid};
}

inline Request request_of(const PodSpec& pod) {
  return Request::of_pod(pod, ResourceNames()).value();
}

// Returns the pod bound to a node, with a record of these shares for container "main".
inline PodSpec bound(PodSpec pod, const std::string& node, const std::vector<GpuShare>& shares) {
  pod.node_name = node;
  pod.phase = PodPhase::kRunning;
  pod.annotations[std::string(key::kAllocation)] = Record{{{"main", shares}}}.json();
  return pod;
}
inline PodSpec bound_share(const std::string& name, std::uint32_t units, const std::string& node,
                           unsigned index) {
  return bound(share_pod(name, units), node, {{.gpu = uuid_of(node, index), .units = units}});
}
inline PodSpec bound_whole(const std::string& name, const std::string& node,
                           const std::vector<unsigned>& indices) {
  std::vector<GpuShare> shares;
  for (const unsigned index : indices) {
    shares.push_back({.gpu = uuid_of(node, index), .whole = true});
  }
  return bound(whole_pod(name, static_cast<std::int64_t>(indices.size())), node, shares);
}

// Returns the pod as the API server shows it after a bind with this choice.
inline PodSpec after_bind(const Ledger& ledger, PodSpec pod, const Choice& choice) {
  pod.node_name = ledger.node_name(choice.node);
  pod.annotations[std::string(key::kAllocation)] = choice.record.json();
  return pod;
}

}  // namespace tessera::alloc::testing
