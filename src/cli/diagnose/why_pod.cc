// `tessera why` for one pod. why_nodes.cc judges the nodes, why_placed.cc explains pods that have one.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "alloc/placer.h"
#include "base/strings.h"
#include "cli/diagnose/request_hints.h"
#include "cli/diagnose/restricted.h"
#include "cli/diagnose/why_context.h"

namespace tessera::cli {

namespace {

using alloc::Reason;
using alloc::Request;

std::string gpus_text(unsigned count) {
  return count == 1 ? "one GPU" : fmt::format("each of {} GPUs", count);
}

std::string needs_text(const Request& request, const alloc::Placer& placer, alloc::Unit unit) {
  std::vector<std::string> parts;
  const alloc::SharePart& share = request.shape.share;
  if (share.gpus > 0) {
    const std::string core =
        share.core_percent > 0 ? fmt::format(" and {}% compute", share.core_percent) : "";
    parts.push_back(request.has_several_parts()
                        ? fmt::format("GPU shares for several containers, the largest {}{} on {} ({})",
                                      amount_text(unit, share.units), core, gpus_text(share.gpus),
                                      to_string(placer.share_policy(request)))
                        : fmt::format("{}{} on {} ({})", amount_text(unit, share.units), core,
                                      gpus_text(share.gpus), to_string(placer.share_policy(request))));
  }
  if (request.shape.whole > 0) {
    parts.push_back(fmt::format("{} whole GPU{} ({})", request.shape.whole,
                                request.shape.whole == 1 ? "" : "s",
                                to_string(placer.whole_policy(request))));
  }
  std::string text = join_words(parts);
  if (!request.models.empty()) {
    text += fmt::format(", of model {}", fmt::join(request.models, " or "));
  }
  if (!request.uuids.empty()) {
    text += fmt::format(", among {} named GPUs", request.uuids.size());
  }
  return text;
}

std::string free_text(const alloc::FreeSummary& free, alloc::Unit unit) {
  return fmt::format("{} {} free in total, on {} GPU{}; {} GPU{} wholly free.", amount_text(unit, free.units),
                     free.units == 1 ? "is" : "are", free.gpus_with_room, free.gpus_with_room == 1 ? "" : "s",
                     free.whole_gpus, free.whole_gpus == 1 ? " is" : "s are");
}

class PodExplainer {
 public:
  PodExplainer(const WhyContext& context, NodeJudge& judge, const alloc::PodSpec& pod)
      : context_(context), judge_(judge), ledger_(*context.ledger), placer_(judge.placer()), pod_(pod) {
    report_.pod = pod.namespace_name + "/" + pod.name;
    report_.unit = context_.unit;
    report_.created = context_.details(pod).created;
  }

  WhyReport answer() {
    if (!alloc::asks_for_gpus(pod_)) {
      report_.waits = waits_for_unserved(context_.cluster, pod_, details());
      find_main_reason();
      report_.answer = fmt::format(
          "{} requests {}, so Tessera does not affect it; see: kubectl describe pod {} -n {}", report_.pod,
          details().other_gpu_limits.empty() ? "no GPUs" : "no GPUs under a name that Tessera serves",
          pod_.name, pod_.namespace_name);
    } else if (!alloc::occupies(pod_)) {
      explain_ended(context_, pod_, report_);
    } else if (!pod_.node_name.empty()) {
      context_.cluster.restriction.nodes ? answer_placed_restricted()
                                         : explain_placed(context_, pod_, report_);
    } else {
      report_.waits = true;
      find_obstacles();
      context_.cluster.restriction.any() ? answer_waiting_restricted() : answer_waiting();
      find_main_reason();
    }
    for (std::string& hint : request_hints(context_.cluster, pod_, details(), ledger_)) {
      report_.hints.push_back(std::move(hint));
    }
    return std::move(report_);
  }

 private:
  // Replaces the reason of the request by one that counts more. Obstacles may pass. What no change of
  // the cluster repairs counts more than they do: an invalid request, a resource that nothing serves,
  // and a request that is larger than every node.
  void find_main_reason() {
    const std::vector<std::string> unserved = unserved_resources(context_.cluster, details());
    if (report_.waits && !unserved.empty() && !invalid_) {
      report_.reason = unserved.front();
    } else if (!report_.obstacles.empty() && !invalid_ && !too_large_) {
      report_.reason = report_.obstacles.front();
    }
  }

  void answer_invalid(const Error& error) {
    invalid_ = true;
    report_.reason = "its request is invalid: " + error.text();
    report_.answer = fmt::format("{} fits on no node: {}", report_.pod, report_.reason);
  }

  void answer_placed_restricted() {
    report_.node = pod_.node_name;
    report_.answer = restricted_bound_answer(pod_, context_.cluster.names);
    for (const auto& [container, message] : details().waiting) {
      report_.obstacles.push_back(fmt::format("container {} does not start: {}", container, message));
    }
  }

  void answer_waiting_restricted() {
    const auto request = Request::of_pod(pod_, context_.cluster.names);
    if (!request) {
      answer_invalid(request.error());
      return;
    }
    report_.needs = restricted_needs(*request, context_.cluster.names);
    report_.answer =
        fmt::format("{} needs {}. It is not known which nodes have room.", pod_.name, report_.needs);
    report_.reason = "it is not known which nodes have room";
    if (std::string text = scheduler_text(details()); !text.empty()) {
      report_.hints.push_back(std::move(text));
    }
  }

  [[nodiscard]] const objects::PodDetails& details() const { return context_.details(pod_); }

  void find_obstacles() {
    const objects::PodDetails& pod = details();
    if (pod_.deleting) {
      report_.obstacles.emplace_back("it is being deleted, so no scheduler will place it");
    }
    if (!pod.scheduling_gates.empty()) {
      report_.obstacles.push_back(fmt::format(
          "it has the scheduling gate{} {}: schedulers ignore it until the controller that added {} "
          "removes {}",
          pod.scheduling_gates.size() == 1 ? "" : "s", join_words(pod.scheduling_gates),
          pod.scheduling_gates.size() == 1 ? "it" : "them",
          pod.scheduling_gates.size() == 1 ? "it" : "them"));
    }
    const Attachment& attachment = context_.attachment;
    if (attachment.excludes(pod.scheduler_name)) {
      report_.obstacles.push_back(fmt::format(
          "its schedulerName is {}, which does not call Tessera: create it again with {}", pod.scheduler_name,
          attachment.second_scheduler.empty() ? *attachment.names.begin() : attachment.second_scheduler));
    } else if (!pod.scheduling_attempted && !pod.scheduler_name.empty() && report_.obstacles.empty()) {
      report_.obstacles.push_back(fmt::format(
          "the scheduler {} has not tried to place it yet; if this persists, run \"tessera check\" to see "
          "whether it is running",
          pod.scheduler_name));
    }
  }

  void answer_waiting() {
    const auto request = Request::of_pod(pod_, ledger_.options().names);
    if (!request) {
      answer_invalid(request.error());
      return;
    }
    report_.needs = needs_text(*request, placer_, report_.unit);
    judged_ = &judge_.judge(pod_, *request);
    report_.nodes = judged_->closed;
    report_.without_gpus = judged_->without_gpus;
    report_.fits = judged_->fits;
    report_.free = free_text(alloc::free_summary(ledger_), report_.unit);
    if (report_.fits.empty()) {
      const std::string closed = closed_text();
      report_.answer = fmt::format("{} needs {}. {}.", pod_.name, report_.needs, closed);
      const std::string too_large = too_large_text();
      too_large_ = !too_large.empty();
      report_.reason = has_room() ? closed : too_large_ ? too_large : lacking_text();
      add_hints(*request);
      return;
    }
    answer_fits(*request);
  }

  // Returns why no node fits: none has room, or the nodes with room do not accept the pod.
  [[nodiscard]] std::string closed_text() const {
    if (!has_room()) {
      return "No node fits now";
    }
    const WhyNode& first = report_.nodes.front();
    const auto count = std::ranges::count_if(
        report_.nodes, [](const WhyNode& node) { return node.verdict.reason == Reason::kFits; });
    return count == 1 ? fmt::format("Node {} has room, but {}", first.node, first.also)
                      : fmt::format("{} nodes have room, but none accepts the pod: on {}, {}", count,
                                    first.node, first.also);
  }

  // Returns whether a node has room that does not accept the pod. Such nodes come first.
  [[nodiscard]] bool has_room() const {
    return !report_.nodes.empty() && report_.nodes.front().verdict.reason == Reason::kFits;
  }

  // Returns why no node could take the pod even if it were empty; "" if some node could.
  [[nodiscard]] std::string too_large_text() const {
    std::vector<std::string> phrases;
    for (const WhyNode& node : report_.nodes) {
      const Reason reason = node.verdict.reason;
      if (reason != Reason::kGpusTooSmall && reason != Reason::kTooFewGpus &&
          reason != Reason::kNoSuchModel) {
        return "";
      }
      if (std::ranges::find(phrases, node.verdict.phrase) == phrases.end()) {
        phrases.push_back(node.verdict.phrase);
      }
    }
    return phrases.empty() ? "" : "no node can ever fit it: " + fmt::format("{}", fmt::join(phrases, ", "));
  }

  // Returns in a few words why no node has room, judged by the nearest one.
  [[nodiscard]] std::string lacking_text() const {
    if (report_.nodes.empty()) {
      return "no node has GPUs";
    }
    const WhyNode& nearest = report_.nodes.front();
    if (!alloc::eviction_may_help(nearest.verdict.reason)) {
      return fmt::format("{}: {}", nearest.node, nearest.verdict.text);
    }
    const WhyNode* const least = report_.least();
    return least == nullptr ? nearest.verdict.phrase
                            : fmt::format("{}; fits when {} on {} {}", nearest.verdict.phrase,
                                          blockers_text(*least, report_.unit), least->node,
                                          least->verdict.blockers.size() == 1 ? "ends" : "end");
  }

  // Returns ", best on gpu-a (GPU 0)", or "" if only the extender can compute the best node.
  [[nodiscard]] std::string best_text(const Request& request) {
    const bool shares = request.shape.share.gpus > 0;
    const bool whole = request.shape.whole > 0;
    // Only the extender knows typical pods and the table of static sets. fgd also ranks the nodes
    // of pods with whole GPUs.
    if (placer_.share_policy(request) == alloc::Policy::kFgd ||
        (whole && placer_.whole_policy(request) == alloc::Policy::kStatic)) {
      return "";
    }
    const auto choice = placer_.choose_best(request, judged_->open);
    if (!choice) {
      return "";
    }
    std::vector<std::string> gpus;
    for (const unsigned slot : topology::GpuIndices(choice->share_gpus | choice->whole_gpus)) {
      gpus.push_back(std::to_string(ledger_.gpus(choice->node)[slot].index));
    }
    const ClusterSettings& settings = context_.cluster.settings;
    const bool known = (!shares || request.share_policy || settings.share_policy) &&
                       (!whole || request.whole_policy || settings.whole_policy);
    return fmt::format(", best on {} (GPU {}){}", ledger_.node_name(choice->node), join_words(gpus),
                       known ? "" : " by the default policy");
  }

  void answer_fits(const Request& request) {
    const std::string where = fmt::format("fits now on {} node{}{}", report_.fits.size(),
                                          report_.fits.size() == 1 ? "" : "s", best_text(request));
    report_.reason = where;
    report_.answer = fmt::format("{} needs {}. It {}.", pod_.name, report_.needs, where);
    if (report_.obstacles.empty()) {
      report_.hints.push_back(fmt::format(
          "If it stays pending, something other than GPUs prevents scheduling (CPU, affinity, volumes); see: "
          "kubectl describe pod {} -n {}",
          pod_.name, pod_.namespace_name));
    }
  }

  void add_hints(const Request& request) {
    const alloc::FreeSummary free = alloc::free_summary(ledger_, judged_->open);
    const alloc::ResourceNames& names = ledger_.options().names;
    const std::map<Reason, std::size_t>& reasons = judged_->reasons;
    const alloc::SharePart& share = request.shape.share;
    if (reasons.size() == reasons.count(Reason::kNoGpus)) {
      report_.hints.emplace_back(
          "No node publishes GPUs. Label the GPU nodes with gpushare=true, so that tessera-agent runs there");
      return;
    }
    if (const WhyNode* const least = report_.least(); least != nullptr && least != &report_.nodes.front()) {
      report_.hints.push_back(
          fmt::format("The least to free is {} on {}", blockers_text(*least, report_.unit), least->node));
    }
    if (request.shape.whole == 0 && share.gpus == 1 && !request.has_several_parts() &&
        !request.has_constraints() && free.largest_units > 0 && free.largest_units < share.units) {
      report_.hints.push_back(fmt::format("Try {}: {}", names.memory(), free.largest_units));
    }
    if (share.gpus == 0 && !request.has_constraints() && free.largest_whole > 0 &&
        free.largest_whole < request.shape.whole) {
      report_.hints.push_back(fmt::format("Try {}: {}", names.whole(), free.largest_whole));
    }
    if (request.has_constraints() && fits_without_constraints(request)) {
      report_.hints.emplace_back(
          "Try without the annotations tessera.io/gpu-model and tessera.io/gpu-uuids: then the pod would "
          "fit");
    }
    add_reason_hints();
  }

  bool fits_without_constraints(const Request& request) {
    Request plain = request;
    plain.models.clear();
    plain.uuids.clear();
    plain.uuids_excluded.clear();
    return placer_.choose_best(plain, judged_->open).has_value();
  }

  void add_reason_hints() {
    const auto hint = [&](Reason reason, std::string_view what) {
      if (const auto found = judged_->reasons.find(reason); found != judged_->reasons.end()) {
        report_.hints.push_back(
            fmt::format("{} node{}: {}", found->second, found->second == 1 ? "" : "s", what));
      }
    };
    hint(Reason::kUnhealthy, "the free GPUs are unhealthy; see dmesg there, then restart the node");
    hint(Reason::kInventoryUnreadable,
         "the inventory cannot be read; run tessera-agent there in the extender's version");
    hint(Reason::kUnitDiffers, "the memory unit differs; run tessera-agent there with the cluster's --unit");
    hint(Reason::kSecondPlugin, "two device plugins allocate the same GPUs; remove one of them");
    hint(Reason::kUnreadablePod, "a pod there cannot be read; delete it");
    hint(Reason::kUnrecordedPod,
         "a running pod has no valid GPU record; see tessera check, and the logs of tessera-agent there");
    hint(Reason::kOriginalPlugin,
         "the original device plugin serves only a share of one GPU; replace it with tessera-agent");
    hint(Reason::kOriginalTopologyPlugin,
         "the original topology plugin serves only whole GPUs of one container; replace it with "
         "tessera-agent");
    hint(Reason::kNoMps, "MPS is not available; request only GPU memory");
  }

  const WhyContext& context_;
  NodeJudge& judge_;
  const alloc::Ledger& ledger_;
  alloc::Placer& placer_;
  const alloc::PodSpec& pod_;
  const JudgedNodes* judged_ = nullptr;
  bool invalid_ = false;    // the request is
  bool too_large_ = false;  // for every node, even an empty one
  WhyReport report_;
};

}  // namespace

WhyReport explain(const WhyContext& context, NodeJudge& judge, const alloc::PodSpec& pod) {
  return PodExplainer(context, judge, pod).answer();
}

}  // namespace tessera::cli
