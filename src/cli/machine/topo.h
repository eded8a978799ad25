// cli/machine/topo.h
//
// `tessera topo`: how the GPUs of a machine or a node are connected, what is free there, and which GPUs a
// request would get.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster.h"
#include "cli/command/command.h"
#include "topology/set_search.h"
#include "topology/topology.h"

namespace tessera::cli {

struct TopoOptions {
  std::string node{};  // of the cluster
  ClusterOptions cluster{};
  std::string file{};          // `topo -m` text, our JSON or an inventory; "-" is standard input
  std::string machine{};       // or a machine description by name or path
  unsigned count = 0;          // GPUs to choose; 0: only show
  std::string policy{};        // empty: the cluster's, where a node of it is asked about; else ring
  std::string taken{};         // GPUs in use: "0,3"
  std::string static_table{};  // JSON file, for the policy static
  std::string output = "text";
};

// What there is to show, however it is shown.
struct TopoView {
  std::string title;
  std::string machine_type;   // the key of static tables; empty for a file
  std::string instance_type;  // the other one, of a node
  std::string policy;         // of the cluster, for whole GPUs; empty where nobody told
  topology::Topology topology;
  std::vector<std::string> notes;
  topology::GpuMask taken = 0;
  std::vector<std::string> uses;  // of a node's GPUs: "8/32 GiB: ml/infer"; empty where nobody knows

  struct Choice {
    std::string policy;
    topology::SetChoice set;
    std::int32_t pair_sum = 0;
    std::vector<unsigned> ring;  // its GPUs in the order of the ring
  };
  std::optional<Choice> choice;
};

Result<TopoView> make_topo_view(const TopoOptions& options);
// A node of the cluster; GPUs that are not wholly free are taken.
Result<TopoView> describe_node(const ClusterOptions& cluster, const std::string& node);

void print_topo_text(const TopoView& view, std::ostream& out);
void print_topo_json(const TopoView& view, std::ostream& out);
void print_topo_svg(const TopoView& view, std::ostream& out);

// 0, or 1 with the reason on `err`.
int run_topo(const TopoOptions& options, std::ostream& out, std::ostream& err);

// "40", "9.6", "370.8": GB/s as people write it.
std::string gigabytes(topology::Mbps mbps);

void add_topo_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
