// cli/machine/topo.h
//
// `tessera topo`: shows how the GPUs of a machine or a node are connected, which are free, and
// which GPUs a request would get.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/cluster_watch.h"
#include "cli/command/command.h"
#include "cli/output/terminal.h"
#include "topology/set_search.h"
#include "topology/topology.h"

namespace tessera::cli {

struct TopoOptions {
  std::string node{};  // name of a node of the cluster
  ClusterOptions cluster{};
  std::string file{};          // `topo -m` text, topology JSON or an inventory; "-": standard input
  std::string machine{};       // name or path of a machine description
  unsigned count = 0;          // GPUs to choose; 0: only show the topology
  std::string policy{};        // empty: the cluster's policy if `node` is set, otherwise ring
  std::string taken{};         // GPUs in use: "0,3"
  std::string static_table{};  // JSON file, for the policy static
  std::string output = "text";
  WatchOptions watch{};  // needs `node`
};

// The part of one GPU of a node that pods hold.
struct GpuUse {
  enum class State { kFree, kShared, kWhole };

  State state = State::kFree;
  std::string model;
  std::string unhealthy;  // the reason; empty if healthy
  std::uint64_t held = 0;
  std::uint64_t total = 0;  // 0: unknown
  std::string memory;       // "13/32 GiB"
  std::vector<std::string> pods;

  // Returns "whole: ml/train", "8/32 GiB: ml/infer, web/split" or "unhealthy: XID 79". Returns ""
  // for a free GPU.
  [[nodiscard]] std::string text() const;
};

// The result of the command, independent of the output format.
struct TopoView {
  std::string title;
  std::string machine_type;   // looked up first in static tables; empty for a file
  std::string instance_type;  // looked up second; set only for a node of the cluster
  std::string policy;         // the cluster's policy for whole GPUs; empty if unknown
  topology::Topology topology;
  std::vector<std::string> notes;
  topology::GpuMask taken = 0;
  std::vector<GpuUse> uses;  // of each GPU; empty if unknown, as for a file

  struct Choice {
    std::string policy;
    topology::SetChoice set;
    std::int32_t pair_sum = 0;
    std::vector<unsigned> ring;  // the chosen GPUs in ring order
  };
  std::optional<Choice> choice;
};

Result<TopoView> make_topo_view(const TopoOptions& options);
// Returns the view of options.node, a node of `cluster`. GPUs that are not completely free count as
// taken.
Result<TopoView> make_topo_view(const TopoOptions& options, const Cluster& cluster);
Result<TopoView> describe_node(const Cluster& cluster, const std::string& node);

void print_topo_text(const TopoView& view, std::ostream& out, const Terminal& terminal = {});
void print_topo_json(const TopoView& view, std::ostream& out);
void print_topo_svg(const TopoView& view, std::ostream& out);

// Runs the command and returns 0. On failure, returns 1 and writes the reason to `err`.
int run_topo(const TopoOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal = {});

// Returns GB/s with at most one decimal: "40", "9.6", "370.8".
std::string gigabytes(topology::Mbps mbps);

void add_topo_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
