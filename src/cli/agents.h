// cli/agents.h
//
// What the agents themselves know, asked through the API server's proxy to their pods: real use of the GPUs,
// and what kubelet was given. Beyond the right to list nodes and pods this wants `get` on pods/proxy; where
// it is missing, or an agent does not answer, the rest of a command works without.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/cluster.h"

namespace tessera::cli {

// What one agent answered, or why not.
struct AgentAnswer {
  std::string node;
  Result<std::string> body;
};

// Asks every agent for a page ("metrics", "allocations"), all at once, for a few seconds at most. Empty where
// there are none (another way of installation, saved files).
Result<std::vector<AgentAnswer>> ask_agents(const ClusterOptions& options, std::string_view page);

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
  std::string pod;  // "namespace/name"
  std::string uid;
  std::string container;
  std::vector<std::string> gpus{};  // UUIDs, sorted
  std::string held{};               // why it may not start; empty: it may
};

// From a page of allocations.
Result<std::vector<GivenContainer>> parse_given(std::string_view text);

}  // namespace tessera::cli
