#include "cli/savings/savings_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/strings.h"
#include "cli/cluster/cluster_ledger.h"
#include "cli/output/messages.h"
#include "cli/output/safe_output.h"

namespace tessera::cli {

namespace {

std::string lower_bound_text(const SavingsReport& report) {
  std::int64_t at_least = 0;
  // Pods that find no room in this plan might find it in another.
  std::int64_t whole = -std::ranges::count(report.pods, Whole::kNoRoom, &SavingsPod::whole);
  for (const SavingsGroup& group : report.groups) {
    at_least += group.at_least;
    whole += group.whole;
  }
  std::vector<std::string> parts;
  if (whole > 0) {
    parts.push_back(fmt::format("{} stay{} whole", whole, whole == 1 ? "s" : ""));
  }
  if (at_least > whole) {
    parts.push_back(fmt::format("the shares add up to {}", at_least - std::max<std::int64_t>(whole, 0)));
  }
  return fmt::format("No placement can need fewer than {}: {}.", counted_text(at_least, "GPU"),
                     join_words(parts));
}

std::string hint_of_idle_memory(const SavingsView& view) {
  std::vector<std::string> names;
  for (const SavingsPod& pod : view.report.pods) {
    if (pod.takes_all_memory) {
      names.push_back(printable(pod.text()));
    }
  }
  if (names.empty()) {
    return "";
  }
  return fmt::format(
      "{} almost all memory of the GPU but little of its time: {}. TensorFlow, JAX and vLLM take all memory "
      "when they start, needed or not. Set their memory limit and measure again.",
      names.size() == 1 ? "1 pod holds" : fmt::format("{} pods hold", names.size()), some_of(names, 3));
}

}  // namespace

std::string counted_text(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string number_text(double amount, int decimals) {
  std::string text = fmt::format("{:.{}f}", amount, decimals);
  const std::size_t point = std::min(text.find('.'), text.size());
  for (std::size_t i = point; i > 3 && text[i - 4] != '-'; i -= 3) {
    text.insert(i - 3, 1, ',');
  }
  return text;
}

std::string memory_text(double mib) {
  return mib < 1024 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

std::string memory_text(const std::optional<double>& mib) {
  return mib ? memory_text(*mib) : "-";
}

std::string percent_text(const std::optional<double>& percent) {
  return percent ? fmt::format("{:.1f}%", *percent) : "-";
}

std::string names_text(const std::vector<const SavingsPod*>& pods, std::size_t most) {
  std::vector<std::string> names;
  for (const SavingsPod* pod : pods) {
    names.push_back(pod->text());
  }
  return some_of(names, most);
}

std::string pool_text(const SavingsGroup& group) {
  const std::string model = group.model.empty() ? "unknown GPU" : group.model;
  return group.pool.empty() ? model : fmt::format("{}, {}", group.pool, model);
}

std::vector<WholeRow> whole_rows(const SavingsView& view) {
  std::map<Whole, WholeRow> rows;
  for (const SavingsPod& pod : view.report.pods) {
    if (pod.whole) {
      WholeRow& row = rows[*pod.whole];
      row.why = *pod.whole;
      row.gpus += pod.gpus;
      row.pods.push_back(&pod);
    }
  }
  std::vector<WholeRow> sorted;
  for (auto& [why, row] : rows) {
    sorted.push_back(std::move(row));
  }
  std::ranges::stable_sort(sorted, std::ranges::greater(), &WholeRow::gpus);
  return sorted;
}

std::vector<AloneRow> alone_rows(const SavingsView& view) {
  std::map<std::vector<Alone>, AloneRow> rows;
  for (const SavingsPod& pod : view.report.pods) {
    if (!pod.alone.empty()) {
      rows[pod.alone].why = pod.alone;
      rows[pod.alone].pods.push_back(&pod);
    }
  }
  std::vector<AloneRow> sorted;
  for (auto& [why, row] : rows) {
    sorted.push_back(std::move(row));
  }
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           [](const AloneRow& row) { return row.pods.size(); });
  return sorted;
}

std::vector<const SharedGpu*> shared_gpus(const SavingsView& view) {
  std::vector<const SharedGpu*> gpus;
  for (const SharedGpu& gpu : view.report.shared) {
    if (view.report.pods[gpu.pods.front()].alone.empty()) {
      gpus.push_back(&gpu);
    }
  }
  return gpus;
}

std::vector<std::string> warnings_shown(const SavingsView& view, std::size_t most) {
  std::vector<std::string> lines = view.report.warnings;
  if (lines.size() > most) {
    const std::size_t rest = lines.size() - most;
    lines.resize(most);
    lines.push_back(fmt::format("and {} more", rest));
  }
  return lines;
}

std::vector<const SavingsPod*> idle_pods(const SavingsView& view) {
  std::vector<const SavingsPod*> pods;
  for (const SavingsPod& pod : view.report.pods) {
    if (pod.idle_gpus > 0) {
      pods.push_back(&pod);
    }
  }
  return pods;
}

std::vector<std::string> confidence(const SavingsView& view) {
  const SavingsReport& report = view.report;
  std::vector<std::string> lines;
  if (report.held == 0 || report.outcomes.empty()) {
    return lines;
  }
  const PolicyOutcome& first = report.outcomes.front();
  const bool may_share = std::ranges::any_of(
      report.pods, [](const SavingsPod& pod) { return !pod.whole || pod.whole == Whole::kNoRoom; });
  if (may_share) {
    lines.push_back(fmt::format(
        "{} needed if the pods that fit on the fewest nodes are placed first, and of these the largest. {}",
        first.gpus == 1 ? "1 GPU is" : fmt::format("{} GPUs are", first.gpus),
        first.most == first.fewest
            ? fmt::format("{} random orders gave the same number.", SavingsReport::kOrders)
            : fmt::format("In {} random orders, the pods needed {} to {} GPUs.", SavingsReport::kOrders,
                          first.fewest, first.most)));
  }
  lines.push_back(lower_bound_text(report));
  if (const std::int64_t unknown = unknown_pods(view); unknown > 0) {
    lines.push_back(fmt::format(
        "{} counted as whole, because too little is known about {}. The pods might need fewer GPUs.",
        unknown == 1 ? "1 single-GPU pod is" : fmt::format("{} single-GPU pods are", unknown),
        unknown == 1 ? "it" : "them"));
  }
  if (const std::string hint = hint_of_idle_memory(view); !hint.empty()) {
    lines.push_back(hint);
  }
  return lines;
}

std::vector<std::string> assumptions(const SavingsView& view) {
  const SavingsRules& rules = view.rules;
  std::vector<std::string> lines;
  lines.push_back(view.report.measured_by.empty()
                      ? "Measurements: none."
                      : fmt::format("Measurements: {}.", view.report.measured_by));
  lines.push_back(
      fmt::format("A pod's share is its {} GPU memory, plus {}% headroom, plus {} for what a measurement "
                  "misses, rounded up to a multiple of {}.",
                  view.memory.text(), rules.headroom_percent,
                  memory_text(static_cast<double>(rules.reserve_mib)), amount_text(rules.unit, 1)));
  lines.push_back(rules.ignore_utilization
                      ? std::string("Utilization is ignored: busy pods may get the same GPU.")
                      : fmt::format("A pod may share if its {} utilization is at most {:g}%. On a shared "
                                    "GPU, the sum is at most {:g}%.",
                                    view.utilization.text(), rules.busiest_share(), rules.gpu_utilization));
  lines.push_back(fmt::format(
      "{} of each GPU stay free for the driver, unless Tessera's inventory says how much it keeps.",
      memory_text(SavingsRules::kDriverMib)));
  lines.emplace_back(
      "Pods that stay whole keep their node. The others stay in their node pool and on their GPU model. "
      "nodeSelector, required node affinity and taints are kept. Pods with a required pod affinity, pod "
      "anti-affinity or topology spread do not leave their node.");
  lines.emplace_back("The CPU and memory that pods request, also pods without GPUs, must fit on their node.");
  if (rules.now && rules.min_age_s > 0) {
    lines.push_back(fmt::format("A pod younger than {} h stays whole.", (rules.min_age_s + 3599) / 3600));
  }
  return lines;
}

std::vector<std::string> left_out(const SavingsView& view) {
  const SavingsReport& report = view.report;
  std::vector<std::string> lines;
  if (report.already_shared > 0) {
    lines.push_back(fmt::format("Pods already share {}; they stay where they are.",
                                counted_text(report.already_shared, "GPU")));
  }
  if (report.mig_pods > 0) {
    lines.push_back(fmt::format("{} hold {}. They are left as they are and not counted.",
                                counted_text(report.mig_pods, "pod"),
                                counted_text(report.mig_devices, "MIG device")));
  }
  if (report.sliced_pods > 0 || report.sliced_nodes > 0) {
    lines.push_back(
        fmt::format("{} on {} share GPUs by time-slicing or MPS of NVIDIA's device plugin. They are left as "
                    "they are and not counted.",
                    counted_text(report.sliced_pods, "pod"), counted_text(report.sliced_nodes, "node")));
  }
  if (report.waiting_pods > 0) {
    lines.push_back(fmt::format("{} without a node wait for {}. They are not part of the plan.",
                                counted_text(report.waiting_pods, "pod"),
                                counted_text(report.waiting_gpus, "GPU")));
  }
  lines.emplace_back(
      "Not checked: volumes that tie a pod to a node, quotas, PodDisruptionBudgets, and whether pods that "
      "share a GPU slow each other down when they are busy at the same time.");
  return lines;
}

}  // namespace tessera::cli
