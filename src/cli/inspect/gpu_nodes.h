// cli/inspect/gpu_nodes.h
//
// GPUs as whole things, node by node: how many, who has them, how they are connected. What `inspect gpu`
// shows in whatever form. Who has what is as the extender's books have it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster/cluster.h"

namespace tessera::cli {

enum class GpuUse { kFree, kShared, kWhole, kUnhealthy };
std::string_view to_string(GpuUse use);

struct NodeGpu {
  std::uint32_t index = 0;
  std::string uuid;
  std::string model;
  std::string unhealthy;          // why; empty when it is well
  std::vector<std::string> pods;  // "namespace/name"
  bool whole = false;             // one of them has it alone

  [[nodiscard]] GpuUse use() const;
};

struct GpuNode {
  std::string name;
  std::string address;
  std::string type;  // kind of machine; may be empty
  std::vector<NodeGpu> gpus{};
  std::vector<std::vector<std::string>> links;  // "NV2", "SYS"; empty when nobody told; [i][i] is "X"

  // GPUs that some pod is on.
  [[nodiscard]] std::int64_t used() const;
  [[nodiscard]] std::int64_t free() const;
};

struct GpuNodes {
  std::vector<GpuNode> nodes;
  std::string policy;                 // how whole GPUs are chosen where a pod does not say
  std::vector<std::string> warnings;  // about Tessera's own annotations
};

// Nodes without GPUs are left out.
GpuNodes make_gpu_nodes(const Cluster& cluster);

// By "name", or most first by "all", "used" or "free"; equal ones by name.
void sort_gpu_nodes(GpuNodes& nodes, std::string_view by);
std::vector<std::string> gpu_sort_keys();

}  // namespace tessera::cli
