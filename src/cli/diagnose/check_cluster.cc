#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/strings.h"
#include "cli/cluster/cluster_ledger.h"
#include "cli/cluster/node_problem.h"
#include "cli/cluster/pod_problems.h"
#include "cli/diagnose/attachment.h"
#include "cli/diagnose/check.h"
#include "cli/diagnose/check_scheduler.h"

namespace tessera::cli {

namespace {

class Auditor {
 public:
  Auditor(const Cluster& cluster, alloc::Unit unit, const std::vector<std::string>& nodes)
      : cluster_(cluster),
        ledger_(make_ledger(cluster, unit)),
        attachment_(find_attachment(cluster)),
        selected_(nodes.begin(), nodes.end()) {}

  CheckReport report(const CheckAnswers& answers) {
    check_agents(answers.allocations);
    for (Finding& finding : check_schedulers(cluster_, answers.now)) {
      add(std::move(finding));
    }
    for (Finding& finding : check_versions(answers)) {
      add(std::move(finding));
    }
    if (auto finding = check_lease(answers)) {
      add(*std::move(finding));
    }
    check_records();
    for (const objects::NodeFacts& node : cluster_.nodes) {
      check_node(node);
    }
    check_orphans();
    check_memory(answers.usage);
    for (const std::string& warning : cluster_.warnings) {
      if (warning == cluster_.foreign_pods) {
        add({.serious = true, .kind = "foreign_pods", .node = "", .pod = "", .text = warning});
      } else {
        add({.serious = true, .kind = "unreadable_object", .node = "", .pod = "", .text = warning});
      }
    }
    std::erase_if(report_.findings, [&](const Finding& finding) { return !is_selected(finding.node); });
    std::ranges::sort(report_.findings, {}, [](const Finding& one) {
      return std::tuple(!one.serious, one.kind, one.node, one.pod, one.text);
    });
    return std::move(report_);
  }

 private:
  [[nodiscard]] bool is_selected(const std::string& node) const {
    return selected_.empty() || selected_.contains(node);
  }
  void add(Finding finding) { report_.findings.push_back(std::move(finding)); }
  void add_node_finding(const objects::NodeFacts& node, bool serious, std::string kind, std::string text) {
    add({.serious = serious,
         .kind = std::move(kind),
         .node = node.spec.name,
         .pod = "",
         .text = fmt::format("node {}: {}", node.spec.name, text)});
  }

  // Reports the contradictions that the ledger found in records and inventories.
  void check_records() {
    constexpr std::size_t kAll = 1'000'000;
    for (alloc::Problem& problem : ledger_->problems(kAll)) {
      if (problem.kind == alloc::ProblemKind::kUndecided) {
        explain_undecided(problem);
      }
      add({.serious = true,
           .kind = std::string(to_string(problem.kind)),
           .node = std::move(problem.node),
           .pod = std::move(problem.pod),
           .text = std::move(problem.text)});
    }
  }

  // Replaces the text of a pod without a record with one that says which client placed it. A pod that
  // has started lost its record later.
  void explain_undecided(alloc::Problem& problem) const {
    const auto pod = std::ranges::find(cluster_.pods, problem.uid, &alloc::PodSpec::uid);
    if (pod != cluster_.pods.end() && !alloc::has_started(*pod)) {
      problem.text = bypass_text(cluster_, attachment_, *pod);
    }
  }

  // Reports containers that use more GPU memory than they requested.
  void check_memory(const Usage& usage) {
    for (const auto& [name, overuses] : usage.exceeded) {
      const auto pod = std::ranges::find_if(cluster_.pods, [&](const alloc::PodSpec& one) {
        return one.namespace_name + "/" + one.name == name;
      });
      const std::string node = pod == cluster_.pods.end() ? "" : pod->node_name;
      for (const MemoryOveruse& overuse : overuses) {
        add({.serious = true,
             .kind = "memory_exceeded",
             .node = node,
             .pod = name,
             .text = fmt::format("pod {} on node {}: {}; {}", name, node, overuse_text(overuse),
                                 kOveruseAdvice)});
      }
    }
  }

  // Compares the records with the agents' allocations. Agents that did not respond share one
  // finding per kind of error, because usually all have the same one: a missing permission.
  void check_agents(const std::vector<PodAnswer>& agents) {
    std::map<ErrorCode, SilentAgents> silent;
    for (const PodAnswer& agent : agents) {
      if (!is_selected(agent.node)) {
        continue;
      }
      const auto containers = agent.body ? parse_allocations(*agent.body)
                                         : Result<std::vector<ContainerAllocation>>(fail(agent.body.error()));
      if (!containers) {
        SilentAgents& agents_of_code = silent[containers.error().code()];
        if (agents_of_code.nodes++ == 0) {
          agents_of_code.node = agent.node;
          agents_of_code.error = containers.error().text();
        }
        continue;
      }
      for (const ContainerAllocation& container : *containers) {
        check_allocation(agent.node, container);
      }
    }
    for (const auto& [code, same_error] : silent) {
      add({.serious = false,
           .kind = "agent_silent",
           .node = same_error.node,
           .pod = "",
           .text = same_error.nodes == 1
                       ? fmt::format("node {}: cannot read the allocations of its agent: {}", same_error.node,
                                     same_error.error)
                       : fmt::format("node {} and {} more: cannot read the allocations of their agents: {}",
                                     same_error.node, same_error.nodes - 1, same_error.error)});
    }
  }

  void check_allocation(const std::string& node, const ContainerAllocation& allocation) {
    if (!allocation.start_block.empty()) {
      add({.serious = false,
           .kind = "held",
           .node = node,
           .pod = allocation.pod,
           .text = allocation.pod.empty()
                       ? fmt::format("node {}: a container whose pod is not known yet may not start: {}",
                                     node, allocation.start_block)
                       : fmt::format("pod {}: container {} on node {} may not start yet: {}", allocation.pod,
                                     allocation.container, node, allocation.start_block)});
    }
    // A pod that is not in the list was created or deleted in the meantime.
    const auto holding = ledger_->holding(allocation.uid);
    if (!holding || !holding->decided) {
      return;
    }
    for (const std::string& gpu : allocation.gpus) {
      if (std::ranges::none_of(holding->shares, [&](const auto& held) { return held.share.gpu == gpu; })) {
        add({.serious = true,
             .kind = "given_elsewhere",
             .node = node,
             .pod = allocation.pod,
             .text =
                 fmt::format("pod {}: container {} was allocated {}, which its record does not name; delete "
                             "the pod so that it is scheduled again",
                             allocation.pod, allocation.container, gpu)});
      }
    }
  }

  void check_node(const objects::NodeFacts& node) {
    const auto id = ledger_->find_node(node.spec.name);
    const std::size_t gpus = id ? ledger_->gpus(*id).size() : 0;
    const NodeProblem problem = node_problem(cluster_, node);
    if (gpus == 0) {
      if (problem) {
        report_problem(node, problem, {});
      } else {
        check_node_without_gpus(node, id);
      }
      return;
    }
    const auto holdings = ledger_->holdings(*id);
    if (is_selected(node.spec.name)) {
      ++report_.nodes;
      report_.gpus += gpus;
      report_.pods += holdings.size();
    }
    if (problem) {
      report_problem(node, problem, holdings);
    } else {
      check_kubelet(node, *id);
    }
    // A driver that does not answer is the reason of every GPU.
    if (problem.kind != NodeProblem::Kind::kDriver) {
      check_health(node, *id, holdings);
    }
    if (!node.ready) {
      add_node_finding(node, false, "not_ready", "is not ready");
    }
    if (node.spec.inventory.empty()) {
      const bool topology_plugin = !ledger_->states().original(*id).shares;
      add_node_finding(node, false, "old_plugin",
                       fmt::format("runs the original {} plugin, which serves only {} and reports no health; "
                                   "replace it with tessera-agent",
                                   topology_plugin ? "topology" : "device",
                                   topology_plugin ? "whole GPUs of one container" : "shares of one GPU"));
    }
  }

  void check_node_without_gpus(const objects::NodeFacts& node, std::optional<alloc::NodeId> id) {
    if (is_unhealthy(node)) {
      add_node_finding(node, true, "unhealthy", condition_text(node));
      return;
    }
    const bool readable = !id || ledger_->states().fence(*id) != alloc::Fence::kUnreadable;
    const auto label = node.labels.find("gpushare");
    if (readable && label != node.labels.end() && label->second == "true") {
      add_node_finding(
          node, true, "no_agent",
          "is labelled gpushare=true but publishes no GPUs; see the logs of tessera-agent there, "
          "or remove the label");
    }
  }

  // kubelet gets the GPUs from the device plugin, the scheduler gets them from the inventory.
  void check_kubelet(const objects::NodeFacts& node, alloc::NodeId id) {
    const alloc::NodeView view = ledger_->view(id);
    const auto promised = static_cast<std::int64_t>(view.total_units);
    // The ledger does not report this, because a plugin that is just starting looks the same.
    if (!node.spec.inventory.empty() && node.spec.gpu_memory_units == 0 && promised > 0) {
      add_node_finding(node, true, "capacity_differs",
                       fmt::format("{} is 0 but its inventory has {} on {} GPUs; restart tessera-agent there",
                                   ledger_->options().names.memory(), promised, view.size()));
    }
    if (node.spec.gpu_memory_units > 0 && node.allocatable_units == 0) {
      add_node_finding(
          node, true, "nothing_allocatable",
          "kubelet offers no GPU memory: the device plugin is not running or all GPUs are unhealthy");
    }
  }

  void report_problem(const objects::NodeFacts& node, const NodeProblem& problem,
                      const std::vector<alloc::PodHolding>& holdings) {
    std::vector<std::string> pods;
    for (const alloc::PodHolding& holding : holdings) {
      pods.push_back(holding.pod.text());
    }
    const std::string text =
        pods.empty() ? problem.text : fmt::format("{}; GPU pods there: {}", problem.text, names_text(pods));
    if (problem.kind == NodeProblem::Kind::kNoAgent) {
      add_node_finding(node, true, "no_agent", text);
    } else if (problem.mark == "DriverHangs") {
      add_node_finding(node, true, "driver_hangs", text);
    } else {
      add_node_finding(node, true, "driver_not_ready", text);
    }
  }

  void check_health(const objects::NodeFacts& node, alloc::NodeId id,
                    const std::vector<alloc::PodHolding>& holdings) {
    bool any = false;
    for (unsigned slot = 0; slot < ledger_->gpus(id).size(); ++slot) {
      const std::string_view unhealthy = ledger_->unhealthy(id, slot);
      if (unhealthy.empty()) {
        continue;
      }
      any = true;
      std::vector<std::string> pods;
      for (const alloc::PodHolding& holding : holdings) {
        if (std::ranges::any_of(holding.shares,
                                [&](const auto& held) { return held.slot == static_cast<int>(slot); })) {
          pods.push_back(holding.pod.text());
        }
      }
      add_node_finding(
          node, !pods.empty() || is_unhealthy(node), "unhealthy",
          fmt::format("GPU {} is unhealthy: {}{}", ledger_->gpus(id)[slot].index, unhealthy,
                      pods.empty() ? std::string() : fmt::format("; used by {}", fmt::join(pods, ", "))));
    }
    // The agent also knows GPUs that it cannot list in the inventory.
    if (!any && is_unhealthy(node)) {
      add_node_finding(node, true, "unhealthy", condition_text(node));
    }
  }

  static bool is_unhealthy(const objects::NodeFacts& node) { return node.gpus_healthy == "False"; }
  static std::string condition_text(const objects::NodeFacts& node) {
    return fmt::format("its condition {} is False ({}): {}", objects::kGpusHealthy, node.gpus_reason,
                       node.gpus_message);
  }

  void check_orphans() {
    std::set<std::string_view> names;
    for (const objects::NodeFacts& node : cluster_.nodes) {
      names.insert(node.spec.name);
    }
    for (const alloc::PodSpec& pod : cluster_.pods) {
      if (!pod.node_name.empty() && alloc::occupies(pod) && !names.contains(pod.node_name)) {
        const std::string name = pod.namespace_name + "/" + pod.name;
        add({.serious = true,
             .kind = "orphan",
             .node = pod.node_name,
             .pod = name,
             .text = fmt::format("pod {} is on node {}, which does not exist; delete it with: kubectl delete "
                                 "pod {} -n {} --force",
                                 name, pod.node_name, pod.name, pod.namespace_name)});
      }
    }
  }

  // Agents that did not answer because of one kind of error.
  struct SilentAgents {
    std::string node;   // of the first agent
    std::string error;  // of the first agent
    std::size_t nodes = 0;
  };

  const Cluster& cluster_;
  std::unique_ptr<alloc::Ledger> ledger_;
  Attachment attachment_;
  std::set<std::string, std::less<>> selected_;  // nodes; empty: all
  CheckReport report_;
};

}  // namespace

CheckReport check_cluster(const Cluster& cluster, alloc::Unit unit, const CheckAnswers& answers,
                          const std::vector<std::string>& nodes) {
  return Auditor(cluster, unit, nodes).report(answers);
}

}  // namespace tessera::cli
