// cli/diagnose/why.h
//
// `tessera why POD`: why a pod waits. Rebuilds the books of the extender from what anybody may read and asks
// the same code that it asks, node by node.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "alloc/explain.h"
#include "base/result.h"
#include "cli/cluster/cluster.h"
#include "cli/command/command.h"
#include "cli/output/terminal.h"

namespace tessera::cli {

// As the user wrote them.
struct WhyOptions {
  ClusterOptions cluster{};
  std::string pod{};   // "train-7", "pod/train-7" or "ml/train-7"
  std::string unit{};  // of the cluster; empty: as most of its agents count
  std::string output = "text";
};

// One node's verdict.
struct WhyNode {
  std::string node;
  alloc::Explanation verdict;
  std::string also;  // what else keeps the pod away: cordoned, not ready, a taint, another device plugin
};

struct WhyReport {
  std::string pod;     // "ml/train-7"
  std::string needs;   // "8GiB on one GPU (binpack)"; empty when that is the problem
  std::string answer;  // a sentence: the short answer
  // What keeps the pod waiting whatever is free: its gates, a scheduler that does not ask Tessera, its end.
  std::vector<std::string> obstacles;
  std::vector<WhyNode> nodes;  // that have GPUs and cannot take it, the nearest first
  std::size_t without_gpus = 0;
  std::vector<std::string> fits;   // nodes that could take it now
  std::string free;                // what is free in all
  std::vector<std::string> hints;  // what to change
  alloc::Unit unit;
};

// `cluster` with its details. kNotFound when there is no such pod. `pod_namespace` is where a bare name is
// looked for.
Result<WhyReport> explain_pod(const Cluster& cluster, const std::string& pod_namespace,
                              const std::string& pod, alloc::Unit unit);

std::string why_text(const WhyReport& report, const Terminal& terminal);
std::string why_json(const WhyReport& report, bool yaml);

// 0 when the pod could be explained, whatever the answer; 1 with the reason on `err`.
int run_why(const WhyOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal);

void add_why_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
