// cli/cluster/agents.h
//
// What Tessera's own pods know, asked through the API server's proxy to them: real use of the GPUs and what
// kubelet was given (agents), and their versions. Beyond the right to list nodes and pods this wants `get` on
// pods/proxy; where it is missing, or a pod does not answer, the rest of a command works without.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster.h"

namespace tessera::cli {

// What one pod answered, or why not.
struct AgentAnswer {
  std::string node;
  Result<std::string> body;
  std::string pod{};  // "namespace/name"
};

enum class Asked {
  kAgents,
  kPlacers,  // schedulers and extenders
};

// Asks each of them for a page ("metrics", "allocations", "version"), all at once, for a few seconds at most.
// Empty where there are none (another way of installation, saved files).
Result<std::vector<AgentAnswer>> ask_pods(const ClusterOptions& options, Asked whom, std::string_view page);

// The Lease by which those who decide agree who does. Wants `get` on leases there.
Result<std::string> ask_lease(const ClusterOptions& options, const std::string& namespace_name,
                              const std::string& name);

struct GpuUsage {
  double memory_mib = 0;
  double duty_percent = 0;
};

// What the agents have measured.
struct Usage {
  std::map<std::string, GpuUsage> gpus{};          // by UUID
  std::map<std::string, double> pod_memory_mib{};  // by "namespace/name"
  std::vector<std::string> problems{};             // who could not be asked, and why
  [[nodiscard]] bool any() const { return !gpus.empty(); }
};

// From the agents' metrics.
Usage ask_usage(const ClusterOptions& options);
// Adds what one page of metrics says. Lines that are not ours, or not metrics, do not matter.
void read_usage(std::string_view metrics, Usage& usage);

// One container as its agent served it.
struct GivenContainer {
  std::string pod;  // "namespace/name"; empty while the agent does not know whose it is
  std::string uid;
  std::string container;
  std::vector<std::string> gpus{};  // UUIDs, sorted
  std::string held{};               // why it may not start; empty: it may
};

// From a page of allocations.
Result<std::vector<GivenContainer>> parse_given(std::string_view text);

}  // namespace tessera::cli
