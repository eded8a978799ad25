// cli/diagnose/why.h
//
// `tessera why POD`: explains why a pod is pending. Rebuilds the extender's ledger from the nodes
// and pods of the cluster and evaluates each node with the same code as the extender.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "alloc/explain.h"
#include "base/result.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/cluster_watch.h"
#include "cli/command/command.h"
#include "cli/output/terminal.h"

namespace tessera::cli {

// The options as text, the way the user wrote them.
struct WhyOptions {
  ClusterOptions cluster{};
  std::string pod{};   // "train-7", "pod/train-7" or "ml/train-7"
  std::string unit{};  // of the cluster; empty: the unit of most agents
  std::string output = "text";
  WatchOptions watch{};
};

// Why one node does not fit.
struct WhyNode {
  std::string node;
  alloc::Explanation verdict;
  std::string also;  // other reasons: cordoned, not ready, a taint, the pod's nodeSelector
};

struct WhyReport {
  std::string pod;     // "ml/train-7"
  std::string needs;   // "8 GiB on one GPU (binpack)"; empty if the request is invalid
  std::string answer;  // the answer in one or two sentences
  // Reasons why the pod stays pending no matter what is free: scheduling gates, a scheduler that
  // does not call Tessera, a pending deletion.
  std::vector<std::string> obstacles;
  std::vector<WhyNode> nodes;  // nodes with GPUs that do not fit, the nearest to fitting first
  std::size_t without_gpus = 0;
  std::vector<std::string> fits;   // nodes that fit now
  std::string free;                // the free GPU capacity of the whole cluster, in words
  std::vector<std::string> hints;  // advice: what to change so that the pod can fit
  alloc::Unit unit;
};

// Explains a pod of `cluster`, which must have been read with ClusterQuery::details. A bare pod
// name is looked up in `namespace_name`. Returns kNotFound if the pod does not exist.
Result<WhyReport> explain_pod(const Cluster& cluster, const std::string& namespace_name,
                              const std::string& pod, alloc::Unit unit);

std::string why_text(const WhyReport& report, const Terminal& terminal);
std::string why_json(const WhyReport& report, bool yaml);

// Returns 0 if the pod could be explained, whatever the answer. Otherwise returns 1 and writes the
// reason to `err`.
int run_why(const WhyOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal);

void add_why_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
