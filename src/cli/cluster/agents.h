// cli/cluster/agents.h
//
// Reads from Tessera's own pods through the API server's proxy. Agents report actual GPU usage and
// allocations; all pods report their versions. This needs permission to `get` pods/proxy, in
// addition to permission to list nodes and pods. Without that permission, or if a pod does not
// respond, commands omit this part.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster.h"

namespace tessera::cli {

// The response of one pod (an agent, scheduler or extender), or the error.
struct PodAnswer {
  std::string node;
  Result<std::string> body;
  std::string pod{};  // "namespace/name"
};

enum class PodKind {
  kAgents,
  kPlacers,  // schedulers and extenders
};

// Requests a page ("metrics", "allocations", "version") from all pods of kind `kind` in parallel,
// with a timeout of a few seconds. If `node` is not empty, asks only the pods on that node. Finds
// the pods by the labels that the chart sets. Returns one entry for each pod; the entry of a pod
// that does not answer has the error. Returns an empty list if there are no pods of this kind, or
// if the cluster is read from files. Fails if the pods cannot be listed.
Result<std::vector<PodAnswer>> ask_pods(const ClusterOptions& options, PodKind kind, std::string_view page,
                                        std::string_view node = "");

// Returns the JSON of the Lease for the leader election of schedulers and extenders. Needs
// permission to `get` the Lease.
Result<std::string> ask_lease(const ClusterOptions& options, const std::string& namespace_name,
                              const std::string& name);

struct MeasuredUsage {
  double memory_mib = 0;
  double duty_percent = 0;  // share of the time in which the GPU was busy
};

// A container that uses more memory of a GPU than is allocated to it.
struct MemoryOveruse {
  std::string container{};  // empty: not known
  std::string gpu{};        // NVML index
  double used_mib = 0;
  double allowed_mib = 0;  // 0: the GPU is not allocated to the container
};

// Usage as measured by the agents.
struct Usage {
  std::map<std::string, MeasuredUsage> gpus{};     // by UUID
  std::map<std::string, double> pod_memory_mib{};  // by "namespace/name"
  // Containers over their share, by "namespace/name" of the pod.
  std::map<std::string, std::vector<MemoryOveruse>> exceeded{};
  std::vector<std::string> problems{};  // agents that did not answer, and why
  [[nodiscard]] bool any() const { return !gpus.empty(); }
};

// Reads the metrics of all agents, or of the agent on `node`.
Usage ask_usage(const ClusterOptions& options, std::string_view node = "");
// Adds the usage that the agents report in `answers`. Adds a problem for agents that did not answer.
void read_usage(const std::vector<PodAnswer>& answers, Usage& usage);
// Adds the GPU usage in `metrics`, the page of one agent, to `usage`. Ignores metrics that are not
// about GPU usage, and invalid lines.
void read_usage(std::string_view metrics, Usage& usage);

// The GPUs that an agent allocated to one container.
struct ContainerAllocation {
  std::string pod;  // "namespace/name"; empty while the agent does not know the pod
  std::string uid;
  std::string container;
  std::vector<std::string> gpus{};  // UUIDs, sorted
  std::string start_block{};        // why the container may not start yet; empty if it may start
};

// Parses the page "allocations" of an agent.
Result<std::vector<ContainerAllocation>> parse_allocations(std::string_view text);

}  // namespace tessera::cli
