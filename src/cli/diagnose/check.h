// cli/diagnose/check.h
//
// `tessera check`: compares what pods, nodes, kubelets and agents say about GPUs, and reports every
// contradiction.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "alloc/units.h"
#include "base/clock.h"
#include "cli/cluster/agents.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/cluster_watch.h"
#include "cli/command/command.h"
#include "cli/output/terminal.h"

namespace tessera::cli {

// The options as text, the way the user wrote them.
struct CheckOptions {
  ClusterOptions cluster{};
  std::vector<std::string> nodes{};  // empty: all
  std::string unit{};                // of the cluster; empty: the unit of most agents
  std::string output = "text";
  WatchOptions watch{.interval_s = 10};  // each frame asks all agents
};

struct Finding {
  bool serious = true;  // false: a note, not necessarily an error
  std::string kind;     // "overcommitted", ...: one of a fixed set, for scripts
  std::string node;
  std::string pod;   // "namespace/name"; empty if the finding is about the node
  std::string text;  // what is wrong and what to do
};

struct CheckReport {
  std::size_t nodes = 0;  // nodes with GPUs
  std::size_t gpus = 0;
  std::size_t pods = 0;           // pods that hold GPUs
  std::vector<Finding> findings;  // serious findings first
};

// The responses of Tessera's own pods. A pod that did not respond has an error.
struct CheckAnswers {
  std::vector<PodAnswer> allocations{};
  std::vector<PodAnswer> agent_versions{};
  std::vector<PodAnswer> placer_versions{};
  Usage usage{};
  std::string lease{};  // "namespace/name" of the Lease that was read; empty: none
  Result<std::string> lease_body = std::string();
  Clock::Wall now = Clock::real().wall();
};

// Checks the cluster, which must have been read with ClusterQuery::details. Reports only findings
// about `nodes`; empty: all nodes.
CheckReport check_cluster(const Cluster& cluster, alloc::Unit unit, const CheckAnswers& answers = {},
                          const std::vector<std::string>& nodes = {});

// run_check() returns 0 if there is no serious finding, kFoundProblems if there is one, and 1 if
// the cluster could not be read. With --watch, the last frame decides.
inline constexpr int kFoundProblems = 3;
int run_check(const CheckOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal);

void add_check_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
