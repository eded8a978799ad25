#include "cli/cluster/node_problem.h"

#include <fmt/core.h>

#include <algorithm>

#include "alloc/inventory.h"

namespace tessera::cli {

namespace {

constexpr std::string_view kLabel = "gpushare";
constexpr std::string_view kNoAgent = "NoAgent";

bool is_labelled(const objects::NodeFacts& node) {
  const auto label = node.labels.find(kLabel);
  return label != node.labels.end() && label->second == "true";
}

// Returns the agent's pod on the node, if possible one that is ready; null if none is known.
const AgentPod* find_agent(const Cluster& cluster, const std::string& node) {
  const auto found = std::ranges::find(cluster.agents, node, &AgentPod::node);
  return found == cluster.agents.end() ? nullptr : &*found;
}

// Returns whether the inventory lists a GPU that pods could get. An unreadable inventory is another
// problem, which the ledger reports.
bool lists_healthy_gpus(const objects::NodeFacts& node) {
  if (node.spec.inventory.empty()) {
    return node.spec.gpu_memory_units > 0;  // the original plugin publishes no health
  }
  const auto inventory = alloc::Inventory::parse(node.spec.inventory);
  return inventory && std::ranges::any_of(inventory->gpus, &alloc::Gpu::healthy);
}

std::string what_to_do(const objects::NodeFacts& node, const AgentPod* agent) {
  if (agent != nullptr) {
    return fmt::format("see: kubectl -n {} describe pod {}", agent->namespace_name, agent->name);
  }
  return is_labelled(node)
             ? std::string("start tessera-agent there; see the Events of its DaemonSet")
             : fmt::format("start tessera-agent there, usually with: kubectl label node {} {}=true",
                           node.spec.name, kLabel);
}

NodeProblem no_agent(std::string text) {
  return {.kind = NodeProblem::Kind::kNoAgent,
          .mark = std::string(kNoAgent),
          .text = std::move(text),
          .hidden = true};
}

// Returns what the agent has reported about the driver in the condition GPUsHealthy.
NodeProblem driver_problem(const objects::NodeFacts& node) {
  const bool hangs = node.gpus_reason == "DriverHangs";
  if (node.gpus_healthy != "False" || (!hangs && node.gpus_reason != "DriverNotReady")) {
    return {};
  }
  return {.kind = NodeProblem::Kind::kDriver,
          .mark = node.gpus_reason,
          .text = fmt::format("the NVIDIA driver {}, so its GPUs take no pods: {}; {}",
                              hangs ? "hangs" : "does not answer", node.gpus_message,
                              hangs ? "see dmesg there, usually the node needs a reboot"
                                    : "run nvidia-smi there; after a driver update, reboot the node"),
          .hidden = lists_healthy_gpus(node)};
}

}  // namespace

NodeProblem node_problem(const Cluster& cluster, const objects::NodeFacts& node) {
  const bool ours = !node.spec.inventory.empty();
  if (!ours && node.spec.gpu_memory_units == 0) {
    return {};
  }
  const bool offered = node.allocatable_units > 0 || node.allocatable_whole > 0 || node.allocatable_count > 0;
  const AgentPod* const agent = find_agent(cluster, node.spec.name);
  // The agent announces its end in an annotation, which the next agent removes. kubelet reports the
  // missing agent up to 10 s later.
  if (ours && !node.spec.draining.empty()) {
    return no_agent(fmt::format("no agent serves its GPUs: the last one has ended (annotation {}); {}",
                                alloc::key::kDraining, what_to_do(node, agent)));
  }
  // While the driver hangs, the agent is not ready either. The driver is the cause.
  if (NodeProblem driver = driver_problem(node)) {
    return driver;
  }
  if (agent != nullptr && !agent->ready) {
    return no_agent(fmt::format("no agent serves its GPUs: the pod {}/{} is not ready; {}",
                                agent->namespace_name, agent->name, what_to_do(node, agent)));
  }
  if (!offered && lists_healthy_gpus(node)) {
    return no_agent(fmt::format("no {} serves its GPUs: kubelet offers no {}; {}",
                                ours ? "agent" : "device plugin", cluster.names.memory(),
                                what_to_do(node, agent)));
  }
  return {};
}

}  // namespace tessera::cli
