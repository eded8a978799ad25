// alloc/node.h
//
// The fields of a Node that the ledger reads. Decoders of nodes fill a NodeSpec and drop all other fields.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace tessera::alloc {

// Annotations of the original topology plugin; not kept if the node has an inventory.
struct OriginalNode {
  // Limit for each text. Enough for all pairs of 64 GPUs. decode_node() stops after the first
  // annotation that exceeds it.
  static constexpr std::size_t kMaxBytes = 128U << 10U;

  std::string gpu_topology{};  // GPU_TOPOLOGY
  std::string gsoc_links{};    // GSOC_DEV_<i>_<j>, as lines "<i>_<j>=<value>"
  std::string type{};          // NODE_TYPE, the machine type

  [[nodiscard]] bool has_links() const { return !gpu_topology.empty() || !gsoc_links.empty(); }
  friend bool operator==(const OriginalNode&, const OriginalNode&) = default;
};

// The original device plugins of a node. A node with tessera-agent has none.
struct OriginalPlugins {
  bool shares = false;  // the plugin of gpushare: a share of one GPU for one container
  bool whole = false;   // the topology plugin: whole GPUs for one container

  [[nodiscard]] bool any() const { return shares || whole; }
  friend bool operator==(const OriginalPlugins&, const OriginalPlugins&) = default;
};

struct NodeSpec {
  std::string name;
  std::string inventory;  // annotation tessera.io/inventory; empty if absent
  // Annotations tessera.io/draining and tessera.io/draining-seen; empty if absent.
  std::string draining{};
  std::string draining_seen{};
  // status.capacity of gpu-mem, gpu-count and the whole-GPU resource; 0 if absent. If the annotation
  // is absent, the inventory is estimated from them.
  std::int64_t gpu_memory_units = 0;
  std::int64_t gpu_count = 0;
  std::int64_t whole_gpus = 0;
  // status.capacity of nvidia.com/gpu: the number of GPUs that another device plugin allocates. 0
  // if Tessera itself serves that resource.
  std::int64_t nvidia_gpus = 0;
  // status.allocatable.
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  std::string machine;  // label node.kubernetes.io/instance-type
  // Key `gpus` of ConfigMap unhealthy-gpu-<node>; used only if the annotation is absent.
  std::string unhealthy_gpus;
  OriginalNode original{};

  // The number of GPUs that original plugins serve, if the inventory is absent. Only the topology
  // plugin serves the whole-GPU resource and reads our records of it; without its annotations,
  // another plugin serves the resource.
  [[nodiscard]] std::int64_t original_gpus() const {
    return original.has_links() ? std::max(gpu_count, whole_gpus) : gpu_count;
  }

  friend bool operator==(const NodeSpec&, const NodeSpec&) = default;
};

}  // namespace tessera::alloc
