// cli/inspect/inspect.h
//
// `kubectl inspect gpushare` and `kubectl inspect gpu`, also as `tessera inspect`: what of the GPUs is given
// out. The default output has the bytes of the tools that Tessera replaces; more is told on request.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/cluster_watch.h"
#include "cli/command/command.h"
#include "cli/inspect/gpu_nodes.h"
#include "cli/inspect/shares.h"
#include "cli/output/terminal.h"

namespace tessera::cli {

enum class InspectKind {
  kShares,  // gpushare: memory
  kGpus,    // gpu: whole GPUs and how they are connected
};

// As the user wrote them.
struct InspectOptions {
  InspectKind kind = InspectKind::kShares;
  ClusterOptions cluster{};
  std::vector<std::string> nodes{};  // empty: all
  bool details = false;
  std::string output = "text";  // wide, json, yaml
  std::string sort_by = "name";
  std::string selector{};
  bool watch = false;
  unsigned interval_s = 2;
};

// kNotFound, as the originals said it, when a node that is asked for does not exist.
Result<Frame> inspect_frame(const InspectOptions& options, Cluster cluster, const Terminal& terminal);

// What of the cluster has to be read.
ClusterQuery inspect_query(const InspectOptions& options);

// 0, or 1 with the reason: like the original's on `out` for a node that does not exist, else on `err`.
int run_inspect(const InspectOptions& options, std::ostream& out, std::ostream& err,
                const Terminal& terminal);

// The layouts.
std::string shares_summary(const Shares& shares);
std::string shares_details(const Shares& shares);
std::string shares_wide(const Shares& shares, const Terminal& terminal);
std::string gpus_summary(const GpuNodes& nodes);
std::string gpus_details(const GpuNodes& nodes);
std::string gpus_wide(const GpuNodes& nodes, const Terminal& terminal);

// The name a program was started by says which plugin it is: ".../kubectl-inspect-gpushare".
bool is_inspect_plugin(std::string_view program);
int run_inspect_plugin(int argc, char** argv);

void add_inspect_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
