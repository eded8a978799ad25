// cli/inspect/shares.h
//
// How GPU memory is shared out, node by node: what `inspect gpushare` shows in whatever form.
//
// The numbers are those of the tool that Tessera replaces: allocatable of the node, limits of the pods, GPU
// by the annotations of old schedulers. What it could not know is better known here: GPUs of different sizes
// and the unit from Tessera's inventory, who is where from Tessera's records.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster/cluster.h"

namespace tessera::cli {

// Where a pod is when nobody decided, or nobody can tell: what the original called pending.
inline constexpr std::int64_t kPending = -1;

struct SharePod {
  std::string pod_namespace;
  std::string name;
  std::map<std::int64_t, std::int64_t> units{};  // by GPU index
  std::set<std::int64_t> whole{};                // GPUs that it holds alone
  // By the second-generation annotation: the original then showed in each column what that says.
  bool by_allocation = false;
};

struct ShareGpu {
  std::int64_t total = 0;
  std::int64_t used = 0;
  std::vector<std::size_t> pods;  // in ShareNode::pods
  std::string uuid;
  std::string model;
  std::string unhealthy;  // why; empty when it is well
};

struct ShareNode {
  std::string name;
  std::string address;                    // "unknown" where there is none
  std::string unit;                       // of its numbers: "GiB"; empty when nothing tells
  std::int64_t count = 0;                 // GPUs, with indices from 0
  std::int64_t total = 0;                 // units that kubelet gives out
  std::map<std::int64_t, ShareGpu> gpus;  // by index; also those that pods name and the node does not have
  std::vector<SharePod> pods;

  [[nodiscard]] bool has_pending() const { return gpus.contains(kPending); }
  // Of all GPUs that pods name.
  [[nodiscard]] std::int64_t used() const;
};

struct Shares {
  std::vector<ShareNode> nodes;
  std::string unit;  // the one for all; empty when no node tells
  // About Tessera's own annotations, which old tools know nothing of, and about units.
  std::vector<std::string> warnings;
};

// Nodes that share no GPU memory now are left out.
Shares make_shares(const Cluster& cluster);

// By "name", or most first by "allocated", "free", "total" or "percent"; equal ones by name.
void sort_shares(Shares& shares, std::string_view by);
std::vector<std::string> share_sort_keys();

// Amounts come from anybody's annotations: a sum stops at the ends of the type.
std::int64_t saturated_sum(std::int64_t a, std::int64_t b);

// Percent as the original counted: cut, not rounded.
std::int64_t percent_of(std::int64_t used, std::int64_t total);

}  // namespace tessera::cli
