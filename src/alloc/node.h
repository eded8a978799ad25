// alloc/node.h
//
// The part of a node that matters here, as plain fields. Whoever decodes nodes fills it and drops the rest.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::alloc {

struct NodeSpec {
  std::string name;
  std::string inventory;  // the annotation tessera.io/inventory; empty when there is none
  // status.capacity of the shared and counted GPU resources; 0 when absent. Only read without inventory.
  std::int64_t gpu_memory_units = 0;
  std::int64_t gpu_count = 0;
  // status.capacity of nvidia.com/gpu, where that is not what we serve ourselves: GPUs that another device
  // plugin gives out.
  std::int64_t nvidia_gpus = 0;
  // status.allocatable.
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  std::string machine;         // label node.kubernetes.io/instance-type
  std::string unhealthy_gpus;  // key `gpus` of ConfigMap unhealthy-gpu-<node>; only read without inventory

  friend bool operator==(const NodeSpec&, const NodeSpec&) = default;
};

}  // namespace tessera::alloc
