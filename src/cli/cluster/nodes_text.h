// cli/cluster/nodes_text.h
//
// Messages about nodes that several commands share.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/cluster/cluster.h"

namespace tessera::cli {

// Returns kNotFound for a node that does not exist:
//
//   node "gpu-z" does not exist; did you mean gpu-a?
//   node "x" does not exist; the nodes are cpu-1, gpu-a and gpu-b
//
// `names` are the nodes that exist. At most 8 of them are listed. The second function asks the
// cluster for the names.
Error no_such_node(const std::string& name, const std::vector<std::string>& names);
Error no_such_node(const ClusterOptions& options, const std::string& name);

// Returns a sentence about a cluster whose GPUs Tessera does not serve yet:
//
//   10 nodes offer nvidia.com/gpu, but none has Tessera's inventory; install the agent, or run
//   "tessera savings"
//
// Returns "" if a node has GPUs of Tessera or of the original plugins, or if no node has GPUs.
std::string other_gpus_text(const Cluster& cluster);

}  // namespace tessera::cli
