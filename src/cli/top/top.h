// cli/top/top.h
//
// `tessera top node|pod`: how much of the GPUs is allocated and, if the agents' metrics can be
// read, actually used. Supports the modes of `arena top node` and uses its column names.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/agents.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/cluster_watch.h"
#include "cli/command/command.h"
#include "cli/output/terminal.h"
#include "topology/topology.h"

namespace tessera::cli {

// The options as text, the way the user wrote them.
struct TopOptions {
  bool pods = false;  // top pod
  ClusterOptions cluster{};
  std::vector<std::string> names{};  // nodes, or pods
  bool details = false;
  std::string mode{};           // "", none, exclusive, topology, share
  std::string output = "text";  // wide, json, yaml
  std::string sort_by = "name";
  std::string selector{};  // label selector of nodes; empty: all nodes
  bool metrics = true;     // read actual usage from the agents
  WatchOptions watch{};
};

struct TopGpu {
  std::uint32_t index = 0;
  std::string uuid;
  std::string model;
  std::string unhealthy;  // the reason; empty if healthy
  std::uint64_t total = 0;
  std::uint64_t allocated = 0;  // units; all of them if one pod holds the whole GPU
  bool whole = false;
  std::uint32_t core_percent = 0;  // allocated compute
  std::optional<MeasuredUsage> usage{};
};

struct TopPod {
  std::string namespace_name;
  std::string name;
  std::string node;  // empty: pending
  std::uint64_t units = 0;
  std::uint64_t whole = 0;                          // number of whole GPUs
  std::map<std::uint32_t, std::uint64_t> units_on;  // units by GPU index; 0 for a whole GPU
  bool decided = false;                             // the pod has a record of its GPUs
  // Units by UUID, 0 for a whole GPU; filled instead of units_on if the user may not list nodes.
  std::map<std::string, std::uint64_t> units_on_uuid{};
  std::optional<double> used_mib{};
  std::vector<std::string> problems{};  // of its GPUs: unhealthy, gone, or too much memory used
};

struct TopNode {
  std::string name;
  std::string address;
  std::string role;     // "worker,gpu", or "<none>"
  std::string status;   // ready, notReady, ready,SchedulingDisabled, ready,NoAgent
  std::string problem;  // why its GPUs take no pods; empty if they do. If set, sums leave the node out.
  std::string unit;     // "GiB"
  std::uint32_t unit_mib = 1024;
  bool shares = false;  // has allocatable GPU memory
  std::vector<TopGpu> gpus;
  std::vector<TopPod> pods;
  topology::Topology topology{};

  // Returns the number of allocated GPUs. A share counts as its fraction of the GPU.
  [[nodiscard]] double allocated_gpus() const;
  [[nodiscard]] std::uint64_t allocated() const;
  [[nodiscard]] std::uint64_t total() const;
  [[nodiscard]] std::size_t unhealthy() const;
};

struct TopView {
  std::vector<TopNode> nodes;
  std::vector<TopPod> waiting;  // pods without a node
  bool usage = false;
  bool restricted = false;  // the user may not list nodes, so the unit of GPU memory is not known
  std::vector<std::string> warnings;
  std::string other_gpus{};  // other_gpus_text(): what other plugins serve, if Tessera serves no GPUs
};

Result<TopView> make_top(const TopOptions& options, Cluster cluster, const Usage& usage);

std::string top_nodes_text(const TopOptions& options, const TopView& view, const Terminal& terminal);
std::string top_pods_text(const TopView& view, const Terminal& terminal);
std::string top_json(const TopOptions& options, const TopView& view);

std::vector<std::string> top_sort_keys(bool pods);

// Runs the command and returns 0. On failure, returns 1 and writes the reason to `err`.
int run_top(const TopOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal);

void add_top_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
