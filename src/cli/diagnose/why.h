// cli/diagnose/why.h
//
// `tessera why [POD]`: explains why a pod, the pods of a controller, or all pods wait. Rebuilds the
// extender's ledger from the nodes and pods of the cluster and evaluates each node with the same
// code as the extender.
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
#include "cli/diagnose/why_target.h"
#include "cli/output/terminal.h"

namespace tessera::cli {

// The options as text, the way the user wrote them.
struct WhyOptions {
  ClusterOptions cluster{};
  std::string pod{};   // as WhyTarget::parse() accepts it; empty: all pods that wait
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
  std::string node{};  // empty: the pod has no node
  // waits: it cannot run now. ended: it will never run (again). refused: kubelet did not admit it.
  bool waits = false;
  bool ended = false;
  bool refused = false;
  std::string reason{};   // the main reason in a few words, for a list of pods
  std::string created{};  // RFC 3339
  std::string needs;      // "8 GiB on one GPU (binpack)"; empty if the request is invalid
  std::string answer;     // the answer in one or two sentences
  // Reasons why the pod stays pending no matter what is free: scheduling gates, a scheduler that
  // does not call Tessera, a pending deletion.
  std::vector<std::string> obstacles;
  std::vector<WhyNode> nodes;  // nodes with GPUs that do not fit, the nearest to fitting first
  std::size_t without_gpus = 0;
  std::vector<std::string> fits;   // nodes that fit now
  std::string free;                // the free GPU capacity of the whole cluster, in words
  std::vector<std::string> hints;  // advice: what to change so that the pod can fit
  // Returns the node where the fewest pods must end so that this pod fits; null if there is none.
  const WhyNode* least() const;
  alloc::Unit unit;
};

// The answer about a controller, or about all pods.
struct WhyList {
  WhyTarget target{};
  std::string namespace_name{};  // empty: all namespaces
  std::size_t pods = 0;          // that request GPUs and have not ended
  std::size_t waiting = 0;
  std::size_t waiting_elsewhere = 0;  // in other namespaces
  std::vector<WhyReport> reports{};   // about all pods: one per waiting pod, by name
};

std::string why_text(const WhyReport& report, const Terminal& terminal);
std::string why_json(const WhyReport& report, bool yaml);
std::string why_list_text(const WhyList& list, const Terminal& terminal);
std::string why_list_json(const WhyList& list, bool yaml);
// Returns "ml/a (4 GiB), ml/b (1 GPU)".
std::string blockers_text(const WhyNode& node, alloc::Unit unit);

// Returns 0 if the pods could be explained, whatever the answer. Otherwise returns 1 and writes the
// reason to `err`.
int run_why(const WhyOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal);

void add_why_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
