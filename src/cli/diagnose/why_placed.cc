// `tessera why` for pods that have a node: those that start or run, and those that have ended.
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "cli/cluster/node_problem.h"
#include "cli/cluster/pod_problems.h"
#include "cli/diagnose/why_context.h"

namespace tessera::cli {

namespace {

// Returns "GPU 0 (3 GiB)" for every GPU that the pod holds and its node has.
std::vector<std::string> held_gpus(const WhyContext& context, const alloc::PodHolding& holding) {
  std::vector<std::string> gpus;
  for (const alloc::HeldShare& held : holding.shares) {
    if (held.slot >= 0) {
      const auto& facts = context.ledger->gpus(holding.node)[static_cast<std::size_t>(held.slot)];
      gpus.push_back(held.share.whole ? fmt::format("GPU {} (whole)", facts.index)
                                      : fmt::format("GPU {} ({})", facts.index,
                                                    amount_text(context.unit, held.share.units)));
    }
  }
  return gpus;
}

NodeProblem problem_of_node(const WhyContext& context, const std::string& name) {
  const auto found = std::ranges::find_if(
      context.cluster.nodes, [&](const objects::NodeFacts& node) { return node.spec.name == name; });
  return found == context.cluster.nodes.end() ? NodeProblem{} : node_problem(context.cluster, *found);
}

// Adds what the ledger reports about the pod's record.
void add_record_problems(const WhyContext& context, const alloc::PodSpec& pod, WhyReport& report) {
  for (const alloc::Problem& problem : context.ledger->problems()) {
    if (problem.uid != pod.uid || problem.kind == alloc::ProblemKind::kLostGpu) {
      continue;  // pod_problems() reports lost GPUs
    }
    const bool undecided = problem.kind == alloc::ProblemKind::kUndecided && !alloc::has_started(pod);
    report.hints.push_back(undecided ? bypass_text(context.cluster, context.attachment, pod) : problem.text);
  }
}

// Returns why kubelet could not get devices, judged by its message.
std::string refusal_cause(const std::string& message) {
  if (message.find("no healthy devices present") != std::string::npos ||
      message.find("unregistered device") != std::string::npos) {
    return "no agent was registered with kubelet at that moment, or all its GPUs were unhealthy";
  }
  if (message.find("devices unavailable") != std::string::npos) {
    return "kubelet had fewer GPU devices left than the pod requests: a pod that set nodeName, or a "
           "scheduler "
           "that does not call Tessera, used the node, or GPUs became unhealthy";
  }
  return "kubelet could not get its GPU devices from the agent";
}

}  // namespace

void explain_placed(const WhyContext& context, const alloc::PodSpec& pod, WhyReport& report) {
  report.node = pod.node_name;
  report.answer = fmt::format("{} is not waiting for a node: it is on node {}", report.pod, pod.node_name);
  if (const auto holding = context.ledger->holding(pod.uid)) {
    if (const std::vector<std::string> gpus = held_gpus(context, *holding); !gpus.empty()) {
      report.answer += fmt::format(", {}", join_words(gpus));
    }
    for (const PodProblem& problem : pod_problems(*context.ledger, *holding, context.usage)) {
      report.obstacles.push_back(problem.text + "; " + problem.advice);
    }
  }
  report.answer += ".";
  for (const auto& [container, message] : context.details(pod).waiting) {
    report.obstacles.push_back(fmt::format("container {} does not start: {}", container, message));
  }
  if (const NodeProblem problem = problem_of_node(context, pod.node_name)) {
    report.obstacles.push_back(fmt::format("on node {}, {}", pod.node_name, problem.text));
  }
  add_record_problems(context, pod, report);
  if (pod.phase == alloc::PodPhase::kRunning) {
    for (const std::string& problem : context.usage.problems) {
      report.hints.push_back("Whether it uses more memory than it requested was not checked: " + problem);
    }
  } else {
    report.waits = !report.obstacles.empty() || !report.hints.empty();
  }
  report.reason = !report.obstacles.empty() ? report.obstacles.front()
                  : !report.hints.empty()   ? report.hints.front()
                                            : "";
}

void explain_ended(const WhyContext& context, const alloc::PodSpec& pod, WhyReport& report) {
  const objects::PodDetails& details = context.details(pod);
  report.node = pod.node_name;
  report.ended = true;
  const std::string reason = details.reason.empty() ? std::string("Failed") : details.reason;
  const std::string message = details.message.empty() ? "" : ": " + details.message;
  if (!pod.rejected) {
    report.answer =
        pod.phase == alloc::PodPhase::kSucceeded
            ? fmt::format("{} has ended: its containers succeeded.", report.pod)
            : fmt::format("{} has ended on node {} ({}{}).", report.pod, pod.node_name, reason, message);
    report.reason = reason + message;
    return;
  }
  report.refused = true;
  report.reason = fmt::format("kubelet refused it ({}{})", reason, message);
  report.answer = fmt::format("{} will never run: kubelet on node {} refused it ({}{}).", report.pod,
                              pod.node_name, reason, message);
  report.hints.push_back(fmt::format("Cause: {}.", refusal_cause(details.message)));
  const std::string remove = fmt::format("kubectl delete pod {} -n {}", pod.name, pod.namespace_name);
  report.hints.push_back(
      details.owner_name.empty()
          ? fmt::format(
                "kubelet does not try again, and no controller creates another pod: run {}, and create "
                "the pod again.",
                remove)
          : fmt::format("kubelet does not try again. Its {} {} creates another pod; remove this one with: {}",
                        details.owner_kind, details.owner_name, remove));
  if (const NodeProblem problem = problem_of_node(context, pod.node_name)) {
    report.hints.push_back(fmt::format("Now, on node {}, {}", pod.node_name, problem.text));
  }
}

}  // namespace tessera::cli
