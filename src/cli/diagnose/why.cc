#include "cli/diagnose/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

#include "alloc/placer.h"
#include "base/strings.h"
#include "cli/cluster/cluster_ledger.h"
#include "cli/diagnose/attachment.h"
#include "cli/diagnose/request_hints.h"
#include "cli/diagnose/restricted.h"

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

std::string free_text(const alloc::FreeSummary& free, alloc::Unit unit) {
  return fmt::format("{} {} free in total, on {} GPU{}; {} GPU{} wholly free.", amount_text(unit, free.units),
                     free.units == 1 ? "is" : "are", free.gpus_with_room, free.gpus_with_room == 1 ? "" : "s",
                     free.whole_gpus, free.whole_gpus == 1 ? " is" : "s are");
}

alloc::Placer::Options policies(const ClusterSettings& settings) {
  alloc::Placer::Options options;
  options.share_policy = settings.share_policy.value_or(options.share_policy);
  options.whole_policy = settings.whole_policy.value_or(options.whole_policy);
  return options;
}

class PodExplainer {
 public:
  PodExplainer(const Cluster& cluster, const alloc::PodSpec& pod, alloc::Unit unit)
      : cluster_(cluster),
        pod_(pod),
        ledger_(make_ledger(cluster, unit)),
        placer_(*ledger_, policies(cluster.settings)) {
    report_.pod = pod.namespace_name + "/" + pod.name;
    report_.unit = unit;
  }

  WhyReport answer() {
    if (!alloc::asks_for_gpus(pod_)) {
      report_.answer = fmt::format(
          "{} requests {}, so Tessera does not affect it; see: kubectl describe pod {} -n {}", report_.pod,
          details().other_gpu_limits.empty() ? "no GPUs" : "no GPUs under a name that Tessera serves",
          pod_.name, pod_.namespace_name);
    } else if (!pod_.node_name.empty()) {
      cluster_.restriction.nodes ? answer_bound_restricted() : answer_bound();
    } else {
      find_obstacles();
      cluster_.restriction.any() ? answer_waiting_restricted() : answer_waiting();
    }
    for (std::string& hint : request_hints(cluster_, pod_, details(), *ledger_)) {
      report_.hints.push_back(std::move(hint));
    }
    return std::move(report_);
  }

 private:
  void answer_bound_restricted() {
    report_.answer = restricted_bound_answer(pod_, cluster_.names);
    for (const auto& [container, message] : details().waiting) {
      report_.obstacles.push_back(fmt::format("container {} does not start: {}", container, message));
    }
  }

  void answer_waiting_restricted() {
    const auto request = Request::of_pod(pod_, cluster_.names);
    if (!request) {
      report_.answer =
          fmt::format("{} fits on no node: its request is invalid: {}", report_.pod, request.error().text());
      return;
    }
    report_.needs = restricted_needs(*request, cluster_.names);
    report_.answer =
        fmt::format("{} needs {}. It is not known which nodes have room.", pod_.name, report_.needs);
    if (std::string text = scheduler_text(details()); !text.empty()) {
      report_.hints.push_back(std::move(text));
    }
  }

  void answer_bound() {
    const auto holding = ledger_->holding(pod_.uid);
    report_.answer =
        fmt::format("{} is not waiting for a GPU: it is on node {}", report_.pod, pod_.node_name);
    std::vector<std::string> gpus;
    if (holding) {
      for (const alloc::HeldShare& held : holding->shares) {
        if (held.slot >= 0) {
          const auto& facts = ledger_->gpus(holding->node)[static_cast<std::size_t>(held.slot)];
          gpus.push_back(held.share.whole ? fmt::format("GPU {} (whole)", facts.index)
                                          : fmt::format("GPU {} ({})", facts.index,
                                                        amount_text(report_.unit, held.share.units)));
        }
      }
    }
    report_.answer += gpus.empty() ? "." : fmt::format(", {}.", join_words(gpus));
    for (const auto& [container, message] : details().waiting) {
      report_.obstacles.push_back(fmt::format("container {} does not start: {}", container, message));
    }
    for (const alloc::Problem& problem : ledger_->problems()) {
      if (problem.pod == report_.pod) {
        report_.hints.push_back(problem.text);
      }
    }
  }

  [[nodiscard]] const objects::PodDetails& details() const {
    static const objects::PodDetails kNone;
    const auto found = cluster_.details.find(pod_.uid);
    return found == cluster_.details.end() ? kNone : found->second;
  }

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
    const Attachment attachment = find_attachment(cluster_);
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
    const auto request = Request::of_pod(pod_, ledger_->options().names);
    if (!request) {
      report_.answer =
          fmt::format("{} fits on no node: its request is invalid: {}", report_.pod, request.error().text());
      return;
    }
    report_.needs = needs_text(*request, placer_, report_.unit);
    judge_nodes(*request);
    report_.free = free_text(alloc::free_summary(*ledger_), report_.unit);
    if (report_.fits.empty()) {
      report_.answer = fmt::format("{} needs {}. {}.", pod_.name, report_.needs, closed_text());
      add_hints(*request);
      return;
    }
    answer_fits(*request);
  }

  void judge_nodes(const Request& request) {
    for (const objects::NodeFacts& facts : cluster_.nodes) {
      const auto id = ledger_->find_node(facts.spec.name);
      if (!id) {
        continue;
      }
      WhyNode node{.node = facts.spec.name,
                   .verdict = alloc::explain(*ledger_, placer_, request, *id),
                   .also = also_text(facts, details())};
      ++reasons_[node.verdict.reason];
      if (node.also.empty()) {
        open_.push_back(*id);
      }
      if (node.verdict.reason == Reason::kNoGpus) {
        ++report_.without_gpus;
      } else if (node.verdict.reason == Reason::kFits && node.also.empty()) {
        report_.fits.push_back(std::move(node.node));
      } else {
        report_.nodes.push_back(std::move(node));
      }
    }
    std::ranges::sort(report_.nodes, {}, distance);
  }

  // Returns why no node fits: none has room, or the nodes with room do not accept the pod.
  [[nodiscard]] std::string closed_text() const {
    const auto has_room = [](const WhyNode& node) { return node.verdict.reason == Reason::kFits; };
    const auto first = std::ranges::find_if(report_.nodes, has_room);
    if (first == report_.nodes.end()) {
      return "No node fits now";
    }
    const auto count = std::ranges::count_if(report_.nodes, has_room);
    return count == 1 ? fmt::format("Node {} has room, but {}", first->node, first->also)
                      : fmt::format("{} nodes have room, but none accepts the pod: on {}, {}", count,
                                    first->node, first->also);
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
    const auto choice = placer_.choose_best(request, open_);
    if (!choice) {
      return "";
    }
    std::vector<std::string> gpus;
    for (const unsigned slot : topology::GpuIndices(choice->share_gpus | choice->whole_gpus)) {
      gpus.push_back(std::to_string(ledger_->gpus(choice->node)[slot].index));
    }
    const ClusterSettings& settings = cluster_.settings;
    const bool known = (!shares || request.share_policy || settings.share_policy) &&
                       (!whole || request.whole_policy || settings.whole_policy);
    return fmt::format(", best on {} (GPU {}){}", ledger_->node_name(choice->node), join_words(gpus),
                       known ? "" : " by the default policy");
  }

  void answer_fits(const Request& request) {
    report_.answer =
        fmt::format("{} needs {}. It fits now on {} node{}{}.", pod_.name, report_.needs, report_.fits.size(),
                    report_.fits.size() == 1 ? "" : "s", best_text(request));
    if (report_.obstacles.empty()) {
      report_.hints.push_back(fmt::format(
          "If it stays pending, something other than GPUs prevents scheduling (CPU, affinity, volumes); see: "
          "kubectl describe pod {} -n {}",
          pod_.name, pod_.namespace_name));
    }
  }

  void add_hints(const Request& request) {
    const alloc::FreeSummary free = alloc::free_summary(*ledger_, open_);
    const alloc::ResourceNames& names = ledger_->options().names;
    const alloc::SharePart& share = request.shape.share;
    if (reasons_.size() == reasons_.count(Reason::kNoGpus)) {
      report_.hints.emplace_back(
          "No node publishes GPUs. Label the GPU nodes with gpushare=true, so that tessera-agent runs there");
      return;
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
    return placer_.choose_best(plain, open_).has_value();
  }

  void add_reason_hints() {
    const auto hint = [&](Reason reason, std::string_view what) {
      if (const auto found = reasons_.find(reason); found != reasons_.end()) {
        report_.hints.push_back(
            fmt::format("{} node{}: {}", found->second, found->second == 1 ? "" : "s", what));
      }
    };
    hint(Reason::kUnhealthy, "the free GPUs are unhealthy; see dmesg there, then restart the node");
    hint(Reason::kInventoryUnreadable,
         "the inventory cannot be read; run tessera-agent there in the extender's version");
    hint(Reason::kUnitDiffers, "the memory unit differs; run tessera-agent there with the cluster's --unit");
    hint(Reason::kSecondPlugin, "two device plugins allocate the same GPUs; remove one of them");
    hint(Reason::kAgentAway, "the agent does not run; check the tessera-agent pod there");
    hint(Reason::kUnreadablePod, "a pod there cannot be read; delete it");
    hint(Reason::kUnrecordedPod,
         "a running pod has no valid GPU record; see tessera check, and the logs of tessera-agent there");
    hint(Reason::kOriginalPlugin,
         "the original device plugin serves only a share of one GPU; replace it with tessera-agent");
    hint(Reason::kNoMps, "MPS is not available; request only GPU memory");
  }

  const Cluster& cluster_;
  const alloc::PodSpec& pod_;
  std::unique_ptr<alloc::Ledger> ledger_;
  alloc::Placer placer_;
  std::map<Reason, std::size_t> reasons_;
  std::vector<alloc::NodeId> open_;  // nodes that accept the pod if their GPUs fit
  WhyReport report_;
};

}  // namespace

Result<WhyReport> explain_pod(const Cluster& cluster, const std::string& namespace_name,
                              const std::string& pod, alloc::Unit unit) {
  const std::string_view bare = pod.starts_with("pod/") ? std::string_view(pod).substr(4) : pod;
  const std::size_t slash = bare.find('/');
  const std::string_view space = slash == std::string_view::npos ? namespace_name : bare.substr(0, slash);
  const std::string_view name = slash == std::string_view::npos ? bare : bare.substr(slash + 1);
  const auto found = std::ranges::find_if(cluster.pods, [&](const alloc::PodSpec& one) {
    return one.namespace_name == space && one.name == name;
  });
  if (found == cluster.pods.end()) {
    return fail(
        ErrorCode::kNotFound,
        fmt::format("pod {}/{} does not exist or has ended; list the pods with: kubectl get pods -n {}, "
                    "or give another namespace with -n",
                    space, name, space));
  }
  return PodExplainer(cluster, *found, unit).answer();
}

int run_why(const WhyOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal) {
  const auto printed = [&]() -> Result<std::string> {
    ClusterQuery query;
    const std::string_view name = std::string_view(options.pod).substr(options.pod.rfind('/') + 1);
    query.want_pod = [name](const alloc::PodSpec& pod) {
      return alloc::asks_for_gpus(pod) || pod.name == name;
    };
    query.details = true;
    query.allow_restricted = true;
    query.own_namespace = named_namespace(options);
    const Cluster cluster = TRY(read_cluster(options.cluster, query));
    const std::string& option = options.cluster.namespace_name;
    const alloc::Unit unit = options.unit.empty()
                                 ? common_unit(cluster)
                                 : TRY(with_context(alloc::Unit::parse(options.unit), "--unit"));
    WhyReport report =
        TRY(explain_pod(cluster, option.empty() ? cluster.default_namespace : option, options.pod, unit));
    add_restricted_facts(options.cluster, cluster, report);
    for (const std::string& warning : cluster.warnings) {
      err << "warning: " << warning << "\n";
    }
    return options.output == "text" ? why_text(report, terminal) : why_json(report, options.output == "yaml");
  }();
  if (!printed) {
    err << "error: " << printed.error().text() << "\n";
    return 1;
  }
  out << *printed << std::flush;
  return 0;
}

}  // namespace tessera::cli
