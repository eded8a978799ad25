// cli/cluster/node_problem.h
//
// Finds nodes that take no GPU pods although their inventory lists GPUs: no agent serves them, or
// the NVIDIA driver does not answer. kubelet and kube-scheduler see this before the inventory
// shows it, and an agent that has ended cannot change its inventory any more.
//
//   const NodeProblem problem = node_problem(cluster, facts);
//   if (problem) { warn(facts.spec.name + ": " + problem.text); }
#pragma once

#include <string>

#include "cli/cluster/cluster.h"

namespace tessera::cli {

struct NodeProblem {
  enum class Kind {
    kNone,
    kNoAgent,
    kDriver,  // the driver hangs or does not answer
  };
  Kind kind = Kind::kNone;
  std::string mark;  // one word for a table: "NoAgent", or the reason of the condition GPUsHealthy
  std::string text;  // what is wrong and what to do, without the name of the node
  // The inventory still lists healthy GPUs, so the ledger must fence the node.
  bool hidden = false;

  explicit operator bool() const { return kind != Kind::kNone; }
};

// Returns the problem of one node, or kNone. Uses the node's annotations, its condition
// GPUsHealthy, the amounts that kubelet offers, and the pods of the agents if `cluster` was read
// with ClusterQuery::details. Also covers nodes with the original device plugin.
NodeProblem node_problem(const Cluster& cluster, const objects::NodeFacts& node);

}  // namespace tessera::cli
