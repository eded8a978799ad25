// cli/cluster/cluster.h
//
// The nodes and GPU pods of a cluster, read once from its API server or from files. All commands
// that look at a cluster use it. Needs only permission to list nodes and pods; some commands need
// even less (ClusterQuery::allow_restricted).
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

// Where the cluster is, from the user's options.
struct ClusterOptions {
  std::string file{};        // a directory with nodes.json and pods.json; instead of a cluster
  std::string kubeconfig{};  // empty: $KUBECONFIG, ~/.kube/config, or the pod's own account
  std::string context{};
  std::string namespace_name{};  // empty: all, or that of the context, depending on the command
  bool all_namespaces = false;
  // Resource names of the cluster; empty: read from Tessera's pods, or the defaults.
  std::string resource_prefix{};
  std::string resource_whole{};
  std::string tessera_namespace{};  // where Tessera runs; empty: found by its pods
};

// Adds the options of every command that reads a cluster: --file, --kubeconfig, --context,
// --resource-prefix, --resource-whole, --tessera-namespace.
void add_cluster_options(CLI::App& command, ClusterOptions& options);
// Adds the options that select pods: --namespace, --all-namespaces. `what` is the help of
// --namespace.
void add_namespace_options(CLI::App& command, ClusterOptions& options, const std::string& what);

// Adds the options of commands that report the state of the ledger: --unit, --output.
void add_report_options(CLI::App& command, std::string& unit, std::string& output);

// Which part of the cluster to read.
struct ClusterQuery {
  std::string node{};            // read only this node and its pods; empty: all nodes
  std::string namespace_name{};  // read only pods of this namespace; empty: all namespaces
  // Which pods to keep; empty: those that request GPUs.
  std::function<bool(const alloc::PodSpec&)> want_pod{};
  // A pod that has ended is read only if it is in namespace `ended_in` (empty: the kubeconfig's) and
  // matches the field selector `ended_fields` (empty: no pod). From files, all ended pods are read.
  std::string ended_in{};
  std::string ended_fields{};
  bool details = false;  // true: also fill Cluster::details, Cluster::placers and Cluster::agents
  // With `details`: also keep pods without a node that have PodDetails::other_gpu_limits.
  bool other_gpu_pods = false;
  // More resources to read into ContainerSpec::other_limits (PodExtras::resources).
  std::vector<std::string> resources{};
  // For users who may not list nodes, or may list pods only in their own namespace: read what they may
  // read, and say in Cluster::restriction what is missing. If false, reading the cluster fails for them.
  bool allow_restricted = false;
  std::string own_namespace{};  // of such a user; empty: the namespace of the context
};

// The part of a cluster that the user may not read.
struct Restriction {
  bool nodes = false;            // nodes may not be listed, so Cluster::nodes is empty
  std::string only_namespace{};  // pods may be listed only in this namespace; empty: in all

  [[nodiscard]] bool any() const { return nodes || !only_namespace.empty(); }
  // Returns one sentence: what is missing and which role to ask for.
  [[nodiscard]] std::string text() const;
};

// The extender's settings, as far as Tessera's pods or the user's options state them.
struct ClusterSettings {
  alloc::ResourceNames::Config resources{};
  // The policies for pods that do not name one. Unset: unknown; probably the extender's defaults.
  std::optional<alloc::Policy> share_policy{};
  std::optional<alloc::Policy> whole_policy{};
  std::string tessera_namespace{};  // where Tessera runs; empty: unknown
};

// A pod of Tessera that assigns GPUs: a scheduler with the extender in the same pod, or an extender
// behind a Service.
struct PlacerPod {
  std::string namespace_name;
  std::string name;
  bool is_scheduler = false;     // false: an extender that the cluster's own kube-scheduler calls
  std::string scheduler_name{};  // the schedulerName that it serves, if it is a scheduler
  bool ready = false;
  bool leads = false;  // the pod has the leader label, which only extenders use
  ClusterSettings settings{};
};

// A pod of tessera-agent.
struct AgentPod {
  std::string namespace_name;
  std::string name;
  std::string node;
  bool ready = false;
};

struct Cluster {
  std::vector<objects::NodeFacts> nodes;  // by name
  std::vector<alloc::PodSpec> pods;       // by namespace and name, in the API server's order
  std::vector<std::string> warnings;      // objects that could not be read or are ignored, and why
  std::unordered_map<std::string, objects::PodDetails> details{};  // of `pods`, by UID
  std::vector<PlacerPod> placers{};                                // by namespace and name
  std::vector<AgentPod> agents{};                                  // by node, then ready ones first
  // The warning about pods with Tessera's labels outside its namespace; empty: there are none.
  std::string foreign_pods{};
  std::string default_namespace = "default";
  ClusterSettings settings{};
  alloc::ResourceNames names{};  // made from settings.resources
  Restriction restriction{};
};

// Reads the part of the cluster that `query` selects. Fails if the cluster cannot be read. An
// invalid object is left out and reported in `warnings`.
Result<Cluster> read_cluster(const ClusterOptions& options, const ClusterQuery& query);

}  // namespace tessera::cli
