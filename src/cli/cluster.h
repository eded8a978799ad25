// cli/cluster.h
//
// The nodes and GPU pods of a cluster, read once: from its API server or from files. The one way in which all
// commands that look at a cluster get at it. Needs no more than the right to list nodes and pods.
//
//   const Cluster cluster = TRY(read_cluster(options, {}));
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "alloc/names.h"
#include "alloc/pod.h"
#include "base/result.h"
#include "cli/node_facts.h"

namespace CLI {
class App;
}

namespace tessera::cli {

// Where the cluster is, as the user wrote it.
struct ClusterOptions {
  std::string file{};        // a directory with nodes.json and pods.json; instead of a cluster
  std::string kubeconfig{};  // empty: $KUBECONFIG, ~/.kube/config, or the pod's own account
  std::string context{};
  std::string namespace_name{};  // empty: see the command
  bool all_namespaces = false;
};

// The options that every such command has: --file, --kubeconfig, --context.
void add_cluster_options(CLI::App& command, ClusterOptions& options);
// And those that are about pods: --namespace, --all-namespaces. `what` says what a namespace does here.
void add_namespace_options(CLI::App& command, ClusterOptions& options, const std::string& what);

// Those of commands that tell what the books say: --unit, --output.
void add_report_options(CLI::App& command, std::string& unit, std::string& output);

// What of it is wanted.
struct ClusterQuery {
  std::string node{};            // only this one and its pods
  std::string namespace_name{};  // only pods of this one
  // Which pods to keep; those that ask for GPUs if empty.
  std::function<bool(const alloc::PodSpec&)> want_pod{};
};

struct Cluster {
  std::vector<NodeFacts> nodes;       // by name
  std::vector<alloc::PodSpec> pods;   // by namespace and name, in the API server's order
  std::vector<std::string> warnings;  // objects that could not be read, and why
  std::string default_namespace = "default";
};

bool asks_for_gpus(const alloc::PodSpec& pod);

// Fails when the cluster cannot be asked. An object that makes no sense is left out and told in `warnings`.
Result<Cluster> read_cluster(const ClusterOptions& options, const ClusterQuery& query);

}  // namespace tessera::cli
