// cli/savings/plan_nodes.h
//
// The GPU nodes of a cluster as the plan of `tessera savings` sees them. Nodes with Tessera's agent
// have an inventory. For other nodes, an inventory is derived from the number of GPUs, and from the
// labels of GPU feature discovery and of clouds for model and memory. Private to cli/savings.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alloc/node.h"
#include "cli/cluster/cluster.h"
#include "cli/savings/plan.h"

namespace tessera::cli {

struct PlanGpu {
  std::string model{};
  std::optional<std::uint32_t> memory_mib{};
  std::uint32_t units = 0;  // that can be shared; 0 if the memory is unknown
  std::size_t group = 0;    // in SavingsReport::groups
};

struct PlanNode {
  enum class Kind : std::uint8_t {
    kPlanned,
    kMig,     // its GPUs are MIG devices under the name of whole GPUs
    kSliced,  // NVIDIA's plugin shares its GPUs by time-slicing or MPS
  };

  const objects::NodeFacts* facts = nullptr;
  Kind kind = Kind::kPlanned;
  std::string pool{};
  std::vector<PlanGpu> gpus{};  // indexed by slot
  bool several_models = false;
  bool open = false;  // ready and not cordoned: pods can move here
  // For the ledger. Its CPU and memory are what the node's pods without GPUs leave free.
  alloc::NodeSpec spec{};

  [[nodiscard]] const std::string& name() const { return spec.name; }
};

// The requests of the pods of a node. GPU pods count in whole_gpus only.
struct NodeLoad {
  std::int64_t whole_gpus = 0;
  alloc::NodeUse without_gpus{};
};

// Returns the nodes that have GPUs, and adds a group for each pool and model to `groups`. Node
// problems are added to `warnings`.
std::vector<PlanNode> plan_nodes(const Cluster& cluster, const SavingsRules& rules,
                                 const std::map<std::string, NodeLoad>& loads,
                                 std::vector<SavingsGroup>& groups, std::vector<std::string>& warnings);

}  // namespace tessera::cli
