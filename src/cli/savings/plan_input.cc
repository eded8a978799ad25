#include "cli/savings/plan_input.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "alloc/ledger.h"
#include "cli/cluster/cluster_ledger.h"
#include "cli/output/messages.h"
#include "cli/savings/gpu_limits.h"
#include "cli/savings/plan_nodes.h"
#include "kube/rfc3339.h"

namespace tessera::cli {

namespace {

// A pod that uses this part of its GPU's memory, and little compute, probably has a framework that
// takes all memory when it starts.
constexpr double kAllMemory = 0.85;

const objects::PodDetails& details_of(const Cluster& cluster, const alloc::PodSpec& pod) {
  static const objects::PodDetails kNone;
  const auto found = cluster.details.find(pod.uid);
  return found == cluster.details.end() ? kNone : found->second;
}

bool contains(const std::vector<std::string>& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

bool is_bound_to_its_node(const objects::PodDetails& pod) {
  return std::ranges::any_of(pod.node_terms, [](const objects::NodeTerm& term) {
    return std::ranges::any_of(term, &objects::NodeRequirement::is_field);
  });
}

class InputReader {
 public:
  InputReader(const Cluster& cluster, const Measurements& measured, const SavingsRules& rules)
      : cluster_(cluster), measured_(measured), rules_(rules) {
    input_.report.measured_by = measured.source;
    input_.report.warnings = cluster.warnings;
    input_.report.warnings.insert(input_.report.warnings.end(), measured.warnings.begin(),
                                  measured.warnings.end());
    input_.pack.unit = rules.unit;
    input_.pack.names = cluster.names;
  }

  PlanInput read() {
    read_nodes();
    for (const alloc::PodSpec& pod : cluster_.pods) {
      read_pod(pod);
    }
    warn_about_strangers();
    return std::move(input_);
  }

 private:
  void read_nodes() {
    std::map<std::string, NodeLoad> loads;
    for (const alloc::PodSpec& pod : cluster_.pods) {
      if (pod.node_name.empty() || !alloc::occupies(pod)) {
        continue;
      }
      NodeLoad& load = loads[pod.node_name];
      const GpuLimits limits = limits_of(pod, rules_);
      load.whole_gpus += limits.whole + limits.vendor;
      if (limits.whole + limits.vendor == 0 && !limits.shares) {
        const alloc::NodeUse use = alloc::NodeUse::of_pod(pod);
        load.without_gpus.cpu_milli += use.cpu_milli;
        load.without_gpus.memory_bytes += use.memory_bytes;
        input_.other_pods[pod.node_name] += is_bound_to_its_node(details_of(cluster_, pod)) ? 0 : 1;
      }
      if (limits.mig > 0 || limits.sliced > 0) {
        input_.divided_nodes.insert(pod.node_name);
      }
    }
    input_.pack.nodes = plan_nodes(cluster_, rules_, loads, input_.report.groups, input_.report.warnings);
    bool several_models = false;
    for (std::size_t i = 0; i < input_.pack.nodes.size(); ++i) {
      positions_.emplace(input_.pack.nodes[i].name(), i);
      several_models = several_models || input_.pack.nodes[i].several_models;
      input_.report.sliced_nodes += input_.pack.nodes[i].kind == PlanNode::Kind::kSliced ? 1 : 0;
    }
    if (several_models) {
      ledger_ = make_ledger(cluster_, rules_.unit);
    }
  }

  void read_pod(const alloc::PodSpec& pod) {
    if (!alloc::occupies(pod)) {
      return;
    }
    const GpuLimits limits = limits_of(pod, rules_);
    if (!limits.any()) {
      return;
    }
    if (pod.node_name.empty()) {
      input_.report.waiting_pods += limits.whole + limits.vendor > 0 ? 1 : 0;
      input_.report.waiting_gpus += limits.whole + limits.vendor;
      return;
    }
    const auto node = positions_.find(pod.node_name);
    if (limits.mig > 0 || limits.sliced > 0) {
      note_divided(limits.mig > 0, limits.mig);
    }
    if (limits.whole + limits.vendor == 0 && !limits.shares) {
      return;
    }
    if (node == positions_.end()) {
      input_.report.warnings.push_back(
          fmt::format("pod {}/{} is not counted: its node {} has no GPUs or was not read", pod.namespace_name,
                      pod.name, pod.node_name));
      return;
    }
    const PlanNode& home = input_.pack.nodes[node->second];
    if (home.kind != PlanNode::Kind::kPlanned) {
      note_divided(home.kind == PlanNode::Kind::kMig, limits.whole);
      return;
    }
    if (limits.whole + limits.vendor == 0) {  // it shares GPUs already
      input_.pack.fixed.push_back({.node = node->second, .spec = &pod, .gpus = 0, .has_record = true});
      return;
    }
    add_pod(pod, limits, node->second);
  }

  // Warns about measurements of pods that are not in the cluster. Prometheus also remembers pods that
  // have ended, so there only a lack of any known pod is worth a warning.
  void warn_about_strangers() {
    std::set<std::string> names;
    for (const alloc::PodSpec& pod : cluster_.pods) {
      names.insert(pod.namespace_name + "/" + pod.name);
    }
    std::vector<std::string> strangers;
    std::size_t rows = 0;
    for (const auto& [pod, gpus] : measured_.pods) {
      const auto of_pod = measured_.rows.find(pod);
      const std::size_t count = of_pod == measured_.rows.end() ? 0 : of_pod->second;
      rows += count;
      if (!names.contains(pod)) {
        strangers.push_back(pod);
        input_.report.unmatched_rows += count;
      }
    }
    if (strangers.empty() || (rows == 0 && strangers.size() < measured_.pods.size())) {
      return;
    }
    const std::string what = rows > 0 ? fmt::format("{} of {} rows of {} match no pod of the cluster",
                                                    input_.report.unmatched_rows, rows, measured_.source)
                                      : std::string("none of the pods that were measured is in this cluster");
    input_.report.warnings.push_back(fmt::format("{}: {}", what, some_of(strangers, 3)));
  }

  // Counts a pod whose GPUs are already divided without Tessera.
  void note_divided(bool mig, std::int64_t devices) {
    (mig ? input_.report.mig_pods : input_.report.sliced_pods) += 1;
    input_.report.mig_devices += mig ? devices : 0;
  }

  void add_pod(const alloc::PodSpec& pod, const GpuLimits& limits, std::size_t node) {
    SavingsPod one;
    one.namespace_name = pod.namespace_name;
    one.name = pod.name;
    one.node = pod.node_name;
    one.gpus = limits.whole + limits.vendor;
    const std::optional<std::size_t> slot = slot_of(pod, node);
    const PlanGpu& gpu = input_.pack.nodes[node].gpus[slot.value_or(0)];
    one.group = gpu.group;
    read_usage(one);
    one.whole = why_whole(pod, limits, input_.pack.nodes[node], slot.has_value(), one);
    if (!one.whole) {
      one.units = units_of(*one.memory_mib);
      if (one.units > gpu.units) {
        one.whole = Whole::kTooLarge;
        one.takes_all_memory = *one.memory_mib >= kAllMemory * *gpu.memory_mib;
      }
    }
    if (one.whole || limits.shares) {
      one.whole = one.whole ? one.whole : Whole::kSeveralGpus;
      input_.pack.fixed.push_back({.node = node,
                                   .spec = &pod,
                                   .gpus = one.gpus,
                                   .has_record = limits.tessera_whole || limits.shares});
    } else {
      add_sharing(pod, node, gpu, one);
      input_.pack.sharing.back().has_record = limits.tessera_whole;
    }
    input_.report.pods.push_back(std::move(one));
  }

  // Returns the slot of the GPU that a pod holds, as far as its model matters; nothing if it is not
  // known.
  [[nodiscard]] std::optional<std::size_t> slot_of(const alloc::PodSpec& pod, std::size_t node) const {
    if (!input_.pack.nodes[node].several_models) {
      return 0;
    }
    const auto holding = ledger_->holding(pod.uid);
    if (!holding || !holding->decided || holding->shares.empty() || holding->shares.front().slot < 0) {
      return std::nullopt;
    }
    return static_cast<std::size_t>(holding->shares.front().slot);
  }

  void read_usage(SavingsPod& pod) const {
    const auto found = measured_.pods.find(pod.text());
    if (found == measured_.pods.end()) {
      return;
    }
    for (const auto& [gpu, use] : found->second) {
      if (use.memory_mib) {
        pod.memory_mib = std::max(pod.memory_mib.value_or(0), *use.memory_mib);
      }
      if (use.utilization_percent) {
        pod.utilization_percent = std::max(pod.utilization_percent.value_or(0), *use.utilization_percent);
        pod.idle_gpus += *use.utilization_percent < rules_.idle_utilization ? 1 : 0;
      }
    }
    // A pod that was replaced by one of the same name may have used more GPUs in turn.
    pod.idle_gpus = found->second.size() > static_cast<std::size_t>(pod.gpus) && pod.utilization_percent &&
                            *pod.utilization_percent >= rules_.idle_utilization
                        ? 0
                        : std::min(pod.idle_gpus, pod.gpus);
  }

  [[nodiscard]] std::optional<Whole> why_whole(const alloc::PodSpec& pod, const GpuLimits& limits,
                                               const PlanNode& node, bool known_gpu,
                                               const SavingsPod& one) const {
    if (limits.vendor > 0) {
      return Whole::kOtherVendor;
    }
    if (one.gpus > 1) {
      return Whole::kSeveralGpus;
    }
    const objects::PodDetails& details = details_of(cluster_, pod);
    if ((!rules_.namespaces.empty() && !contains(rules_.namespaces, pod.namespace_name)) ||
        contains(rules_.excluded_namespaces, pod.namespace_name) ||
        !rules_.selector.matches(details.labels)) {
      return Whole::kExcluded;
    }
    if (!known_gpu) {
      return Whole::kUnknownModel;
    }
    if (!node.several_models && !node.gpus.front().memory_mib) {
      return Whole::kUnknownGpuMemory;
    }
    if (is_too_young(details)) {
      return Whole::kTooYoung;
    }
    if (!one.memory_mib) {
      return Whole::kNoMemoryMeasured;
    }
    if (!rules_.ignore_utilization && !one.utilization_percent) {
      return Whole::kNoUtilizationMeasured;
    }
    if (!rules_.ignore_utilization && *one.utilization_percent > rules_.busiest_share()) {
      return Whole::kTooBusy;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool is_too_young(const objects::PodDetails& pod) const {
    if (!rules_.now || rules_.min_age_s <= 0) {
      return false;
    }
    const auto created = kube::parse_rfc3339(pod.created);
    return !created || *rules_.now - *created < std::chrono::seconds(rules_.min_age_s);
  }

  [[nodiscard]] std::uint32_t units_of(double memory_mib) const {
    const double wanted = memory_mib * static_cast<double>(100 + rules_.headroom_percent) / 100 +
                          static_cast<double>(rules_.reserve_mib);
    const double units = std::ceil(wanted / rules_.unit.in_mib());
    return static_cast<std::uint32_t>(std::clamp(units, 1.0, double{alloc::GpuRequest::kMostUnits}));
  }

  void add_sharing(const alloc::PodSpec& pod, std::size_t node, const PlanGpu& gpu, const SavingsPod& one) {
    alloc::Shape shape;
    shape.share.units = one.units;
    shape.share.gpus = 1;
    if (!rules_.ignore_utilization) {
      const double part = std::ceil(*one.utilization_percent * 100 / rules_.gpu_utilization);
      shape.share.core_percent = static_cast<std::uint16_t>(std::clamp(part, 0.0, 100.0));
    }
    shape.node = alloc::NodeUse::of_pod(pod);
    SharingPod sharing;
    sharing.pod = input_.report.pods.size();
    sharing.spec = &pod;
    sharing.node = node;
    sharing.request = alloc::Request::of_shape(shape);
    if (ledger_ != nullptr && !gpu.model.empty()) {
      sharing.request.models = {gpu.model};
    }
    sharing.candidates = candidates_of(pod, node, gpu.group);
    input_.pack.sharing.push_back(std::move(sharing));
  }

  // Returns the position of the list of nodes that the pod may move to.
  std::size_t candidates_of(const alloc::PodSpec& pod, std::size_t home, std::size_t group) {
    const objects::PodDetails& details = details_of(cluster_, pod);
    std::vector<std::size_t> nodes;
    for (std::size_t i = 0; i < input_.pack.nodes.size(); ++i) {
      const PlanNode& node = input_.pack.nodes[i];
      const bool same_group =
          node.kind == PlanNode::Kind::kPlanned &&
          std::ranges::any_of(node.gpus, [&](const PlanGpu& gpu) { return gpu.group == group; });
      if (i == home || (same_group && node.open && !details.depends_on_pods && may_run(details, node))) {
        nodes.push_back(i);
      }
    }
    const auto [found, added] = lists_.emplace(nodes, input_.pack.candidates.size());
    if (added) {
      input_.pack.candidates.push_back(std::move(nodes));
    }
    return found->second;
  }

  static bool may_run(const objects::PodDetails& pod, const PlanNode& node) {
    const auto& labels = node.facts->labels;
    const bool selected = std::ranges::all_of(pod.node_selector, [&](const auto& wanted) {
      const auto label = labels.find(wanted.first);
      return label != labels.end() && label->second == wanted.second;
    });
    return selected && objects::meets_terms(pod.node_terms, node.name(), labels) &&
           std::ranges::all_of(node.facts->taints, [&](const objects::Taint& taint) {
             return objects::tolerates(pod.tolerations, taint);
           });
  }

  const Cluster& cluster_;
  const Measurements& measured_;
  const SavingsRules& rules_;
  PlanInput input_;
  std::map<std::string, std::size_t> positions_;           // of nodes, by name
  std::map<std::vector<std::size_t>, std::size_t> lists_;  // positions in PackInput::candidates
  std::unique_ptr<alloc::Ledger> ledger_;                  // only if a node has several models
};

}  // namespace

PlanInput read_plan_input(const Cluster& cluster, const Measurements& measured, const SavingsRules& rules) {
  return InputReader(cluster, measured, rules).read();
}

}  // namespace tessera::cli
