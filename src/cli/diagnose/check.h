// cli/diagnose/check.h
//
// `tessera check`: holds what pods, nodes and kubelets say about GPUs against each other, and names whatever
// does not agree.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "alloc/units.h"
#include "base/clock.h"
#include "cli/cluster/agents.h"
#include "cli/cluster/cluster.h"
#include "cli/command/command.h"
#include "cli/output/terminal.h"

namespace tessera::cli {

// As the user wrote them.
struct CheckOptions {
  ClusterOptions cluster{};
  std::vector<std::string> nodes{};  // empty: all
  std::string unit{};                // of the cluster; empty: as most of its agents count
  std::string output = "text";
};

struct Finding {
  bool serious = true;  // false: worth knowing, wrong only perhaps
  std::string kind;     // "overcommitted", ...: one of a few words, for scripts
  std::string node;
  std::string pod;   // "namespace/name"; empty when it is about the node
  std::string text;  // a sentence, and what to do
};

struct CheckReport {
  std::size_t nodes = 0;  // with GPUs
  std::size_t gpus = 0;
  std::size_t pods = 0;           // that hold some
  std::vector<Finding> findings;  // serious ones first
};

// What Tessera's own pods said, as far as they could be asked.
struct CheckAnswers {
  std::vector<AgentAnswer> allocations{};
  std::vector<AgentAnswer> agent_versions{};
  std::vector<AgentAnswer> placer_versions{};
  std::string lease{};  // "namespace/name" of the Lease that was asked for; empty: none was
  Result<std::string> lease_body = std::string();
  Clock::Wall now = Clock::real().wall();
};

// `cluster` with its details. `nodes`: only what is about these; empty: all.
CheckReport check_cluster(const Cluster& cluster, alloc::Unit unit, const CheckAnswers& answers = {},
                          const std::vector<std::string>& nodes = {});

// What scripts ask for: 0 nothing is wrong, 3 something serious is; 1 when the cluster could not be read.
inline constexpr int kFoundProblems = 3;
int run_check(const CheckOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal);

void add_check_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
