// cli/diagnose/why_context.h
//
// The part that the explanations of all pods share: the cluster, the ledger that was built from it, and the
// judgement of its nodes.
//
//   const WhyContext context(cluster, unit);
//   NodeJudge judge(context);
//   for (const alloc::PodSpec& pod : cluster.pods) { reports.push_back(explain(context, judge, pod)); }
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "alloc/ledger.h"
#include "alloc/placer.h"
#include "cli/cluster/agents.h"
#include "cli/cluster/cluster.h"
#include "cli/cluster/cluster_ledger.h"
#include "cli/diagnose/attachment.h"
#include "cli/diagnose/why.h"

namespace tessera::cli {

struct WhyContext {
  // `cluster_of_pods` must outlive the context.
  WhyContext(const Cluster& cluster_of_pods, alloc::Unit memory_unit, Usage measured = {})
      : cluster(cluster_of_pods),
        unit(memory_unit),
        ledger(make_ledger(cluster_of_pods, memory_unit)),
        attachment(find_attachment(cluster_of_pods)),
        usage(std::move(measured)) {}

  [[nodiscard]] const objects::PodDetails& details(const alloc::PodSpec& pod) const {
    static const objects::PodDetails kNone;
    const auto found = cluster.details.find(pod.uid);
    return found == cluster.details.end() ? kNone : found->second;
  }

  const Cluster& cluster;
  const alloc::Unit unit;
  const std::unique_ptr<alloc::Ledger> ledger;
  const Attachment attachment;
  const Usage usage;
};

// The nodes as one request sees them.
struct JudgedNodes {
  std::vector<WhyNode> closed{};  // those that do not fit, the nearest to fitting first
  std::size_t without_gpus = 0;
  std::vector<std::string> fits{};
  std::map<alloc::Reason, std::size_t> reasons{};  // how many nodes have each reason
  std::vector<alloc::NodeId> open{};               // nodes that accept the pod if their GPUs fit
};

// Judges the nodes for pods, one after the other. Pods with equal requests, for example those of one
// controller, share the result.
class NodeJudge {
 public:
  // `context` must outlive this object.
  explicit NodeJudge(const WhyContext& context);

  // The result is valid as long as this object exists.
  const JudgedNodes& judge(const alloc::PodSpec& pod, const alloc::Request& request);
  [[nodiscard]] alloc::Placer& placer() { return placer_; }

 private:
  struct Known {
    alloc::Request request;
    std::map<std::string, std::string, std::less<>> node_selector;
    std::vector<objects::Taint> tolerations;
    JudgedNodes nodes;
  };

  void add(JudgedNodes& nodes, const objects::NodeFacts& facts, alloc::NodeId id, const alloc::PodSpec& pod,
           const alloc::Request& request);

  const WhyContext& context_;
  alloc::Placer placer_;
  std::deque<Known> known_;
};

// Explains one pod of the context's cluster.
WhyReport explain(const WhyContext& context, NodeJudge& judge, const alloc::PodSpec& pod);
// Explain a pod that does not wait for a scheduler any more.
void explain_placed(const WhyContext& context, const alloc::PodSpec& pod, WhyReport& report);
void explain_ended(const WhyContext& context, const alloc::PodSpec& pod, WhyReport& report);

}  // namespace tessera::cli
