// cli/inspect/shares.h
//
// The data of `inspect gpushare` for all output formats: how the GPU memory of each node is
// allocated.
//
// The numbers follow the original tool. They come from the node's allocatable amount, the pods'
// limits, and the GPU that the annotations of the original schedulers name. Tessera's inventory
// adds the size of each GPU and the unit. Tessera's records add the GPUs of each pod.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster/cluster.h"

namespace tessera::cli {

// GPU index of pods whose GPU is undecided or unknown. The original calls this pending.
inline constexpr std::int64_t kPending = -1;

struct SharePod {
  std::string namespace_name;
  std::string name;
  std::map<std::int64_t, std::int64_t> units{};  // units of memory by GPU index
  std::set<std::int64_t> whole{};                // indexes of GPUs that it holds whole
  // True if `units` was read from the original's second-generation annotation. With `-d`, the
  // original shows no pending units for such pods, and Tessera does the same.
  bool by_allocation = false;
};

struct ShareGpu {
  std::int64_t total = 0;         // units of memory
  std::int64_t used = 0;          // units of memory that pods hold
  std::vector<std::size_t> pods;  // positions in ShareNode::pods
  std::string uuid;
  std::string model;
  std::string unhealthy;  // the reason; empty if healthy
};

struct ShareNode {
  std::string name;
  std::string address;                    // "unknown" if there is none
  std::string unit;                       // of its amounts: "GiB"; empty if unknown
  std::int64_t count = 0;                 // number of GPUs; their indexes are 0 to count - 1
  std::int64_t total = 0;                 // allocatable units
  std::string problem;                    // NodeProblem::mark; empty: none
  std::map<std::int64_t, ShareGpu> gpus;  // by index; also GPUs that pods name but the node lacks
  std::vector<SharePod> pods;

  [[nodiscard]] bool has_pending() const { return gpus.contains(kPending); }
  // Returns the sum over all of `gpus`.
  [[nodiscard]] std::int64_t used() const;
};

struct Shares {
  std::vector<ShareNode> nodes;
  std::string unit;  // common unit of all nodes, "MiB" if their units differ; empty if unknown
  // Warnings about Tessera's annotations and about units.
  std::vector<std::string> warnings;
};

// Returns the data of all nodes that have allocatable GPU memory.
Shares make_shares(const Cluster& cluster);

// Sorts by "name", or from high to low by "allocated", "free", "total" or "percent" and then by
// name.
void sort_shares(Shares& shares, std::string_view by);
std::vector<std::string> share_sort_keys();

// Adds without overflow: the result is clamped to the range of the type. Annotations may hold any
// amount.
std::int64_t saturated_sum(std::int64_t a, std::int64_t b);

// Returns `used` in percent of `total`, truncated to an integer as in the original.
std::int64_t percent_of(std::int64_t used, std::int64_t total);

}  // namespace tessera::cli
