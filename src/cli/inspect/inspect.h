// cli/inspect/inspect.h
//
// `kubectl inspect gpushare` and `kubectl inspect gpu`, also as `tessera inspect`: how GPUs are
// allocated. The default output equals that of the original tools byte for byte; -o wide, json and
// yaml show more.
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
  kGpus,    // gpu: whole GPUs and their links
};

// The options as text, the way the user wrote them.
struct InspectOptions {
  InspectKind kind = InspectKind::kShares;
  ClusterOptions cluster{};
  std::vector<std::string> nodes{};  // empty: all
  bool details = false;
  std::string output = "text";  // wide, json, yaml
  std::string sort_by = "name";
  std::string selector{};
  WatchOptions watch{};
  // false: as `tessera inspect`, with the error messages of the other commands, and with advice
  // where the original prints an empty table.
  bool compatible = true;
};

// Returns the output for `cluster`. Returns kNotFound if a node of the options does not exist, with
// the message of the original tools if options.compatible is set.
Result<Frame> inspect_frame(const InspectOptions& options, Cluster cluster, const Terminal& terminal);

// Returns which part of the cluster must be read.
ClusterQuery inspect_query(const InspectOptions& options);

// Runs the command. Returns 0 on success, and 1 on failure. The reason of a failure goes to `err`,
// with one exception: if a requested node does not exist and options.compatible is set, the reason
// goes to `out`, as in the original.
int run_inspect(const InspectOptions& options, std::ostream& out, std::ostream& err,
                const Terminal& terminal);

// The output formats.
std::string shares_summary(const Shares& shares);
std::string shares_details(const Shares& shares);
std::string shares_wide(const Shares& shares, const Terminal& terminal);
std::string gpus_summary(const GpuNodes& nodes);
std::string gpus_details(const GpuNodes& nodes);
std::string gpus_wide(const GpuNodes& nodes, const Terminal& terminal);

// Returns whether the program was started under the name of a plugin:
// ".../kubectl-inspect-gpushare".
bool is_inspect_plugin(std::string_view program);
int run_inspect_plugin(int argc, char** argv);

void add_inspect_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
