// alloc/node.h
//
// The fields of a Node that the ledger reads. Decoders of nodes fill it and drop the rest.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::alloc {

struct NodeSpec {
  std::string name;
  std::string inventory;  // annotation tessera.io/inventory; empty if absent
  // status.capacity of gpu-mem and gpu-count; 0 if absent. If the node has no inventory annotation,
  // the inventory is estimated from these amounts.
  std::int64_t gpu_memory_units = 0;
  std::int64_t gpu_count = 0;
  // status.capacity of nvidia.com/gpu: the number of GPUs that another device plugin allocates. 0
  // if Tessera itself serves that resource.
  std::int64_t nvidia_gpus = 0;
  // status.allocatable.
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  std::string machine;  // label node.kubernetes.io/instance-type
  // Key `gpus` of ConfigMap unhealthy-gpu-<node>; used only if the annotation is absent.
  std::string unhealthy_gpus;

  friend bool operator==(const NodeSpec&, const NodeSpec&) = default;
};

}  // namespace tessera::alloc
