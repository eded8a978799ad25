// `tessera why` for each node: whether a pod fits there, and if not, why.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "alloc/explain.h"
#include "cli/cluster/node_problem.h"
#include "cli/diagnose/why_context.h"

namespace tessera::cli {

namespace {

using alloc::Reason;
using alloc::Request;

// Returns why the node does not accept the pod regardless of GPUs, or "".
std::string also_text(const objects::NodeFacts& node, const objects::PodDetails& pod) {
  std::vector<std::string> texts;
  if (node.cordoned) {
    texts.emplace_back("the node is cordoned");
  }
  if (!node.ready) {
    texts.emplace_back("the node is not ready");
  }
  for (const auto& [key, value] : pod.node_selector) {
    if (const auto label = node.labels.find(key); label == node.labels.end() || label->second != value) {
      texts.push_back(fmt::format("the pod's nodeSelector requires {}={}", key, value));
    }
  }
  for (const objects::Taint& taint : node.taints) {
    // The taint of a cordoned node is already reported as "cordoned".
    if (taint.key != "node.kubernetes.io/unschedulable" && !objects::tolerates(pod.tolerations, taint)) {
      texts.push_back(fmt::format("the pod does not tolerate the taint {}{}{}:{}", taint.key,
                                  taint.value.empty() ? "" : "=", taint.value, taint.effect));
    }
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

// Sort key of the table. Nodes that have room come first, then those that lack only free memory or
// GPUs, by the missing amount.
std::tuple<int, std::uint64_t, std::string> distance(const WhyNode& node) {
  const alloc::Explanation& why = node.verdict;
  const int kind = why.reason == Reason::kFits ? 0 : alloc::eviction_may_help(why.reason) ? 1 : 2;
  return {kind, why.short_units + why.short_gpus, node.node};
}

alloc::Placer::Options policies(const ClusterSettings& settings) {
  alloc::Placer::Options options;
  options.share_policy = settings.share_policy.value_or(options.share_policy);
  options.whole_policy = settings.whole_policy.value_or(options.whole_policy);
  return options;
}

// Returns which resource of the request kubelet does not offer although the node has healthy GPUs,
// for example because its device list was too long.
std::string unserved_text(const objects::NodeFacts& node, const alloc::PodSpec& pod,
                          const alloc::ResourceNames& names) {
  // Nodes of the original plugin do not serve whole GPUs; the ledger reports that.
  if (node.spec.inventory.empty() ||
      (node.allocatable_units == 0 && node.allocatable_whole == 0 && node.allocatable_count == 0)) {
    return "";
  }
  const auto offered = [&node](alloc::GpuResource resource) -> std::int64_t {
    switch (resource) {
      case alloc::GpuResource::kMemory:
        return node.allocatable_units;
      case alloc::GpuResource::kWhole:
        return node.allocatable_whole;
      case alloc::GpuResource::kCount:
        return node.allocatable_count;
      case alloc::GpuResource::kCorePercent:
        break;  // kubelet does not count it
    }
    return 1;
  };
  for (const alloc::ContainerSpec& container : pod.containers) {
    for (const auto& [resource, amount] : container.gpu_limits) {
      if (amount != Quantity() && offered(resource) == 0) {
        return fmt::format("kubelet offers no {} there; see the Events of the node and the logs of its agent",
                           names.name(resource));
      }
    }
  }
  return "";
}

}  // namespace

NodeJudge::NodeJudge(const WhyContext& context)
    : context_(context), placer_(*context.ledger, policies(context.cluster.settings)) {}

const JudgedNodes& NodeJudge::judge(const alloc::PodSpec& pod, const Request& request) {
  const objects::PodDetails& details = context_.details(pod);
  const auto found = std::ranges::find_if(known_, [&](const Known& one) {
    return one.request == request && one.node_selector == details.node_selector &&
           one.tolerations == details.tolerations;
  });
  if (found != known_.end()) {
    return found->nodes;
  }
  Known& known = known_.emplace_back(Known{.request = request,
                                           .node_selector = details.node_selector,
                                           .tolerations = details.tolerations,
                                           .nodes = {}});
  for (const objects::NodeFacts& facts : context_.cluster.nodes) {
    if (const auto id = context_.ledger->find_node(facts.spec.name)) {
      add(known.nodes, facts, *id, pod, request);
    }
  }
  std::ranges::sort(known.nodes.closed, {}, distance);
  return known.nodes;
}

void NodeJudge::add(JudgedNodes& nodes, const objects::NodeFacts& facts, alloc::NodeId id,
                    const alloc::PodSpec& pod, const Request& request) {
  WhyNode node{.node = facts.spec.name,
               .verdict = alloc::explain(*context_.ledger, placer_, request, id),
               .also = also_text(facts, context_.details(pod))};
  if (const NodeProblem problem = node_problem(context_.cluster, facts)) {
    node.verdict.text = problem.text;
  } else if (node.verdict.reason == Reason::kFits || alloc::eviction_may_help(node.verdict.reason)) {
    const std::string unserved = unserved_text(facts, pod, context_.cluster.names);
    node.also += (node.also.empty() || unserved.empty() ? "" : "; ") + unserved;
  }
  ++nodes.reasons[node.verdict.reason];
  if (node.also.empty()) {
    nodes.open.push_back(id);
  }
  if (node.verdict.reason == Reason::kNoGpus) {
    ++nodes.without_gpus;
  } else if (node.verdict.reason == Reason::kFits && node.also.empty()) {
    nodes.fits.push_back(std::move(node.node));
  } else {
    nodes.closed.push_back(std::move(node));
  }
}

const WhyNode* WhyReport::least() const {
  const auto cost = [](const WhyNode& one) {
    std::uint64_t whole = 0;
    std::uint64_t units_held = 0;
    for (const alloc::PodHolding& holding : one.verdict.blockers) {
      whole += holding.whole;
      units_held += holding.units;
    }
    return std::tuple(one.verdict.blockers.size(), whole, units_held);
  };
  const WhyNode* best = nullptr;
  for (const WhyNode& one : nodes) {
    if (!one.verdict.blockers.empty() && one.also.empty() && (best == nullptr || cost(one) < cost(*best))) {
      best = &one;
    }
  }
  return best;
}

}  // namespace tessera::cli
