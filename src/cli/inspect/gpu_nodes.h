// cli/inspect/gpu_nodes.h
//
// The data of `inspect gpu` for all output formats: the GPUs of each node, the pods that hold them
// and the links between them. The pods of each GPU come from the same ledger that the extender
// uses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster/cluster.h"

namespace tessera::cli {

enum class GpuState { kFree, kShared, kWhole, kUnhealthy };
std::string_view to_string(GpuState use);

struct NodeGpu {
  std::uint32_t index = 0;
  std::string uuid;
  std::string model;
  std::string unhealthy;          // the reason; empty if healthy
  std::vector<std::string> pods;  // "namespace/name"
  bool whole = false;             // one pod holds the whole GPU

  [[nodiscard]] GpuState use() const;
};

struct GpuNode {
  std::string name;
  std::string address;
  std::string type;  // kind of machine; may be empty
  std::vector<NodeGpu> gpus{};
  // links[i][j] is the link between two GPUs: "NV2", "SYS". links[i][i] is "X". Empty if unknown.
  std::vector<std::vector<std::string>> links;

  // Number of GPUs that pods hold, at least in part.
  [[nodiscard]] std::int64_t used() const;
  [[nodiscard]] std::int64_t free() const;
};

struct GpuNodes {
  std::vector<GpuNode> nodes;
  std::string policy;                 // default policy for whole GPUs
  std::vector<std::string> warnings;  // about Tessera's own annotations
};

// Returns the data of all nodes with GPUs.
GpuNodes make_gpu_nodes(const Cluster& cluster);

// Sorts by "name", or from high to low by "all", "used" or "free" and then by name.
void sort_gpu_nodes(GpuNodes& nodes, std::string_view by);
std::vector<std::string> gpu_sort_keys();

}  // namespace tessera::cli
