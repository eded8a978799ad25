// cli/cluster/cluster.h
//
// The nodes and GPU pods of a cluster, read once: from its API server or from files. The one way in which all
// commands that look at a cluster get at it. Needs no more than the right to list nodes and pods.
//
//   const Cluster cluster = TRY(read_cluster(options, {}));
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "alloc/names.h"
#include "alloc/pod.h"
#include "alloc/request.h"
#include "base/result.h"
#include "objects/node_facts.h"
#include "objects/pod_details.h"

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
  // Names of the cluster's resources; empty: as Tessera's own pods say, else the usual ones.
  std::string resource_prefix{};
  std::string resource_whole{};
};

// The options that every such command has: --file, --kubeconfig, --context, --resource-prefix,
// --resource-whole.
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
  bool details = false;  // Cluster::details and Cluster::placers as well
};

// What the extender was told, as far as it is known here.
struct ClusterSettings {
  alloc::ResourceNames::Config resources{};
  // Where a pod does not name its own. Unset: nobody said; the extender's defaults are likely.
  std::optional<alloc::Policy> share_policy{};
  std::optional<alloc::Policy> whole_policy{};
};

// A pod of Tessera that decides: a scheduler with the extender beside it, or an extender behind a Service.
struct PlacerPod {
  std::string pod_namespace;
  std::string name;
  bool is_scheduler = false;     // else an extender that the cluster's own kube-scheduler calls
  std::string scheduler_name{};  // what pods name to get there, if it is a scheduler
  bool ready = false;
  bool leads = false;  // has the label of the leader; only extenders do
  ClusterSettings settings{};
};

struct Cluster {
  std::vector<objects::NodeFacts> nodes;  // by name
  std::vector<alloc::PodSpec> pods;       // by namespace and name, in the API server's order
  std::vector<std::string> warnings;      // objects that could not be read, and why
  std::unordered_map<std::string, objects::PodDetails> details{};  // of `pods`, by UID
  std::vector<PlacerPod> placers{};                                // by namespace and name
  std::string default_namespace = "default";
  ClusterSettings settings{};
  alloc::ResourceNames names{};  // of `settings`
};

// Fails when the cluster cannot be asked. An object that makes no sense is left out and told in `warnings`.
Result<Cluster> read_cluster(const ClusterOptions& options, const ClusterQuery& query);

}  // namespace tessera::cli
