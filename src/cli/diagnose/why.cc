#include "cli/diagnose/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

#include "alloc/placer.h"
#include "base/strings.h"
#include "cli/cluster/cluster_books.h"
#include "cli/diagnose/attachment.h"

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
                        ? fmt::format("shares for several containers, the largest {}{} on {} ({})",
                                      unit.amount(share.units), core, gpus_text(share.gpus),
                                      to_string(placer.share_policy(request)))
                        : fmt::format("{}{} on {} ({})", unit.amount(share.units), core,
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

// What of the node keeps a pod like this one away before GPUs matter.
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
      texts.push_back(fmt::format("the pod's nodeSelector wants {}={}", key, value));
    }
  }
  for (const objects::Taint& taint : node.taints) {
    // The taint of a cordoned node has been told.
    if (taint.key != "node.kubernetes.io/unschedulable" && !objects::tolerates(pod.tolerations, taint)) {
      texts.push_back(fmt::format("the pod does not tolerate the taint {}{}{}:{}", taint.key,
                                  taint.value.empty() ? "" : "=", taint.value, taint.effect));
    }
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

// Nearest first: what only lacks free memory or GPUs, by how much.
std::tuple<int, std::uint64_t, std::string> distance(const WhyNode& node) {
  const alloc::Explanation& why = node.verdict;
  const int kind = why.reason == Reason::kFits ? 0 : alloc::eviction_may_help(why.reason) ? 1 : 2;
  return {kind, why.short_units + why.short_gpus, node.node};
}

std::string free_text(const alloc::FreeSummary& free, alloc::Unit unit) {
  return fmt::format("In all {} {} free, on {} GPU{}; {} GPU{} wholly free.", unit.amount(free.units),
                     free.units == 1 ? "is" : "are", free.gpus_with_room, free.gpus_with_room == 1 ? "" : "s",
                     free.whole_gpus, free.whole_gpus == 1 ? " is" : "s are");
}

alloc::Placer::Options policies(const ClusterSettings& settings) {
  alloc::Placer::Options options;
  options.share_policy = settings.share_policy.value_or(options.share_policy);
  options.whole_policy = settings.whole_policy.value_or(options.whole_policy);
  return options;
}

class PodQuestion {
 public:
  PodQuestion(const Cluster& cluster, const alloc::PodSpec& pod, alloc::Unit unit)
      : cluster_(cluster),
        pod_(pod),
        books_(make_books(cluster, unit)),
        placer_(*books_, policies(cluster.settings)) {
    report_.pod = pod.pod_namespace + "/" + pod.name;
    report_.unit = unit;
  }

  WhyReport answer() {
    if (!alloc::asks_for_gpus(pod_)) {
      report_.answer = fmt::format(
          "{} asks for no GPUs, so nothing of Tessera keeps it waiting; see: kubectl describe pod {} -n {}",
          report_.pod, pod_.name, pod_.pod_namespace);
    } else if (!pod_.node_name.empty()) {
      answer_bound();
    } else {
      find_obstacles();
      answer_waiting();
    }
    return std::move(report_);
  }

 private:
  void answer_bound() {
    const auto holding = books_->holding(pod_.uid);
    report_.answer = fmt::format("{} does not wait for a GPU: it is on node {}", report_.pod, pod_.node_name);
    std::vector<std::string> gpus;
    if (holding) {
      for (const alloc::PodHolding::Part& part : holding->parts) {
        if (part.slot >= 0) {
          const auto& facts = books_->gpus(holding->node)[static_cast<std::size_t>(part.slot)];
          gpus.push_back(part.whole
                             ? fmt::format("GPU {} (whole)", facts.index)
                             : fmt::format("GPU {} ({})", facts.index, report_.unit.amount(part.units)));
        }
      }
    }
    report_.answer += gpus.empty() ? "." : fmt::format(", {}.", join_words(gpus));
    for (const auto& [container, message] : details().waiting) {
      report_.obstacles.push_back(fmt::format("container {} does not start: {}", container, message));
    }
    for (const alloc::Problem& problem : books_->problems()) {
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
      report_.obstacles.emplace_back("it is being deleted, so no scheduler looks at it any more");
    }
    if (!pod.scheduling_gates.empty()) {
      report_.obstacles.push_back(fmt::format(
          "it has the scheduling gate{} {}: no scheduler looks at it until whoever put {} there takes "
          "{} away",
          pod.scheduling_gates.size() == 1 ? "" : "s", join_words(pod.scheduling_gates),
          pod.scheduling_gates.size() == 1 ? "it" : "them",
          pod.scheduling_gates.size() == 1 ? "it" : "them"));
    }
    const Attachment attachment = find_attachment(cluster_);
    if (attachment.excludes(pod.scheduler_name)) {
      report_.obstacles.push_back(fmt::format(
          "its schedulerName is {}, which does not ask Tessera: create it again with {}", pod.scheduler_name,
          attachment.second_scheduler.empty() ? *attachment.names.begin() : attachment.second_scheduler));
    } else if (!pod.scheduling_attempted && !pod.scheduler_name.empty() && report_.obstacles.empty()) {
      report_.obstacles.push_back(fmt::format(
          "the scheduler {} has not looked at it yet; if that lasts, nobody of that name runs: tessera "
          "check",
          pod.scheduler_name));
    }
  }

  void answer_waiting() {
    const auto request = Request::of_pod(pod_, books_->options().names);
    if (!request) {
      report_.answer = fmt::format("{} can go nowhere: its request makes no sense: {}", report_.pod,
                                   request.error().text());
      return;
    }
    report_.needs = needs_text(*request, placer_, report_.unit);
    judge_nodes(*request);
    report_.free = free_text(alloc::free_summary(*books_), report_.unit);
    if (report_.fits.empty()) {
      report_.answer = fmt::format("{} needs {}. {}.", pod_.name, report_.needs, closed_text());
      add_hints(*request);
      return;
    }
    answer_fits(*request);
  }

  void judge_nodes(const Request& request) {
    for (const objects::NodeFacts& facts : cluster_.nodes) {
      const auto id = books_->find_node(facts.spec.name);
      if (!id) {
        continue;
      }
      WhyNode node{.node = facts.spec.name,
                   .verdict = alloc::explain(*books_, placer_, request, *id),
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

  // Why no node can take it: none has room, or those that have are closed to it for another reason.
  [[nodiscard]] std::string closed_text() const {
    const auto has_room = [](const WhyNode& node) { return node.verdict.reason == Reason::kFits; };
    const auto first = std::ranges::find_if(report_.nodes, has_room);
    if (first == report_.nodes.end()) {
      return "No node has it now";
    }
    const auto count = std::ranges::count_if(report_.nodes, has_room);
    return count == 1 ? fmt::format("Node {} has room for it, but {}", first->node, first->also)
                      : fmt::format("{} nodes have room for it, but none is open to it: on {}, {}", count,
                                    first->node, first->also);
  }

  // ", best on gpu-a (GPU 0)"; nothing where only the extender can tell.
  [[nodiscard]] std::string best_text(const Request& request) {
    const bool shares = request.shape.share.gpus > 0;
    const bool whole = request.shape.whole > 0;
    // Typical pods and tables of sets are known to the extender alone; fgd also chooses nodes for whole GPUs.
    if (placer_.share_policy(request) == alloc::Policy::kFgd ||
        (whole && placer_.whole_policy(request) == alloc::Policy::kStatic)) {
      return "";
    }
    const auto choice = placer_.place(request, open_);
    if (!choice) {
      return "";
    }
    std::vector<std::string> gpus;
    for (const unsigned slot : topology::GpuIndices(choice->share_gpus | choice->whole_gpus)) {
      gpus.push_back(std::to_string(books_->gpus(choice->node)[slot].index));
    }
    const ClusterSettings& told = cluster_.settings;
    const bool known = (!shares || request.share_policy || told.share_policy) &&
                       (!whole || request.whole_policy || told.whole_policy);
    return fmt::format(", best on {} (GPU {}){}", books_->node_name(choice->node), join_words(gpus),
                       known ? "" : " by the default policy");
  }

  void answer_fits(const Request& request) {
    report_.answer =
        fmt::format("{} needs {}. It fits now on {} node{}{}.", pod_.name, report_.needs, report_.fits.size(),
                    report_.fits.size() == 1 ? "" : "s", best_text(request));
    if (report_.obstacles.empty()) {
      report_.hints.push_back(fmt::format(
          "If it still waits, something else than GPUs refuses it (CPU, affinity, volumes): kubectl "
          "describe pod {} -n {}",
          pod_.name, pod_.pod_namespace));
    }
  }

  void add_hints(const Request& request) {
    const alloc::FreeSummary free = alloc::free_summary(*books_, open_);
    const alloc::ResourceNames& names = books_->options().names;
    const alloc::SharePart& share = request.shape.share;
    if (reasons_.size() == reasons_.count(Reason::kNoGpus)) {
      report_.hints.emplace_back(
          "No node has GPUs that Tessera knows of. Label GPU nodes gpushare=true, so that tessera-agent runs "
          "there");
      return;
    }
    if (request.shape.whole == 0 && share.gpus == 1 && !request.has_several_parts() && !request.is_choosy() &&
        free.largest_units > 0 && free.largest_units < share.units) {
      report_.hints.push_back(fmt::format("{}: {} would fit now", names.memory(), free.largest_units));
    }
    if (share.gpus == 0 && !request.is_choosy() && free.largest_whole > 0 &&
        free.largest_whole < request.shape.whole) {
      report_.hints.push_back(fmt::format("{}: {} would fit now", names.whole(), free.largest_whole));
    }
    if (request.is_choosy() && fits_without_wishes(request)) {
      report_.hints.emplace_back(
          "Without its annotations tessera.io/gpu-model and tessera.io/gpu-uuids it would fit");
    }
    add_reason_hints();
  }

  bool fits_without_wishes(const Request& request) {
    Request plain = request;
    plain.models.clear();
    plain.uuids.clear();
    plain.uuids_excluded.clear();
    return placer_.place(plain, open_).has_value();
  }

  void add_reason_hints() {
    const auto hint = [&](Reason reason, std::string_view what) {
      if (const auto found = reasons_.find(reason); found != reasons_.end()) {
        report_.hints.push_back(
            fmt::format("{} node{}: {}", found->second, found->second == 1 ? "" : "s", what));
      }
    };
    hint(Reason::kUnhealthy, "free, but its GPUs are unhealthy: see dmesg there, then restart the node");
    hint(Reason::kInventoryUnreadable, "give tessera-agent there the extender's version and restart it");
    hint(Reason::kUnitDiffers, "give the agent there the cluster's --unit");
    hint(Reason::kSecondPlugin, "remove one of the two device plugins that give out the same GPUs there");
    hint(Reason::kOldPlugin, "more than a share of one GPU needs tessera-agent in place of the old plugin");
    hint(Reason::kNoMps, "without MPS: ask for GPU memory only");
  }

  const Cluster& cluster_;
  const alloc::PodSpec& pod_;
  std::unique_ptr<alloc::Ledger> books_;
  alloc::Placer placer_;
  std::map<Reason, std::size_t> reasons_;
  std::vector<alloc::NodeId> open_;  // nodes that nothing but their GPUs keeps the pod from
  WhyReport report_;
};

}  // namespace

Result<WhyReport> explain_pod(const Cluster& cluster, const std::string& pod_namespace,
                              const std::string& pod, alloc::Unit unit) {
  const std::string_view bare = pod.starts_with("pod/") ? std::string_view(pod).substr(4) : pod;
  const std::size_t slash = bare.find('/');
  const std::string_view space = slash == std::string_view::npos ? pod_namespace : bare.substr(0, slash);
  const std::string_view name = slash == std::string_view::npos ? bare : bare.substr(slash + 1);
  const auto found = std::ranges::find_if(cluster.pods, [&](const alloc::PodSpec& one) {
    return one.pod_namespace == space && one.name == name;
  });
  if (found == cluster.pods.end()) {
    return fail(
        ErrorCode::kNotFound,
        fmt::format("pod {}/{} is not there, or its containers have ended; look with: kubectl get pods "
                    "-n {}, or name another namespace with -n",
                    space, name, space));
  }
  return PodQuestion(cluster, *found, unit).answer();
}

int run_why(const WhyOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal) {
  const auto printed = [&]() -> Result<std::string> {
    ClusterQuery query;
    const std::string_view name = std::string_view(options.pod).substr(options.pod.rfind('/') + 1);
    query.want_pod = [name](const alloc::PodSpec& pod) {
      return alloc::asks_for_gpus(pod) || pod.name == name;
    };
    query.details = true;
    const Cluster cluster = TRY(read_cluster(options.cluster, query));
    const std::string& asked = options.cluster.namespace_name;
    const alloc::Unit unit = options.unit.empty()
                                 ? common_unit(cluster)
                                 : TRY(with_context(alloc::Unit::parse(options.unit), "--unit"));
    const WhyReport report =
        TRY(explain_pod(cluster, asked.empty() ? cluster.default_namespace : asked, options.pod, unit));
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
