#include "cli/savings/savings_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/strings.h"
#include "cli/cluster/cluster_ledger.h"
#include "cli/output/safe_output.h"

namespace tessera::cli {

namespace {

constexpr double kHoursPerMonth = 730;

std::string per_hour(double amount, const std::string& currency) {
  return fmt::format("{} {} per hour, {} {} per month", number_text(amount, 2), currency,
                     number_text(amount * kHoursPerMonth, 0), currency);
}

std::int64_t freed_nodes(const SavingsReport& report) {
  std::int64_t count = 0;
  for (const SavingsGroup& group : report.groups) {
    count += std::ssize(group.freed_nodes);
  }
  return count;
}

std::int64_t freed_node_gpus(const SavingsReport& report) {
  std::int64_t count = 0;
  for (const SavingsGroup& group : report.groups) {
    count += group.freed_node_gpus;
  }
  return count;
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
  const std::size_t shown = std::min<std::size_t>(names.size(), 3);
  return fmt::format(
      "{} almost all memory of the GPU but little of its time: {}. TensorFlow, JAX and vLLM take all memory "
      "when they start, needed or not. Set their memory limit and measure again.",
      names.size() == 1 ? "1 pod holds" : fmt::format("{} pods hold", names.size()),
      fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
}

}  // namespace

std::string counted_text(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string number_text(double amount, int decimals) {
  std::string text = fmt::format("{:.{}f}", amount, decimals);
  const std::size_t point = std::min(text.find('.'), text.size());
  for (std::size_t i = point; i > 3 && text[i - 4] != '-'; i -= 3) {
    text.insert(i - 3, ",");
  }
  return text;
}

std::string memory_text(double mib) {
  return mib < 1024 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

std::string pool_text(const SavingsGroup& group) {
  const std::string model = group.model.empty() ? "unknown GPU" : group.model;
  return group.pool.empty() ? model : fmt::format("{}, {}", group.pool, model);
}

std::string headline(const SavingsView& view) {
  const SavingsReport& report = view.report;
  if (report.gpus == 0) {
    return fmt::format("There are no whole GPUs in this cluster: no node has {}.",
                       fmt::join(view.rules.resources, ", "));
  }
  if (report.held == 0) {
    return fmt::format("No pod holds a GPU. All {} are unallocated.", counted_text(report.gpus, "GPU"));
  }
  const std::string which = report.held == report.gpus
                                ? fmt::format("your {}", counted_text(report.gpus, "GPU"))
                                : fmt::format("{} of your {}", report.held, counted_text(report.gpus, "GPU"));
  if (report.saved() <= 0) {
    return fmt::format("The pods on {} need all of them: sharing would save nothing{}.", which,
                       report.measured_by.empty() ? " that can be shown without measurements" : "");
  }
  return fmt::format("The pods on {} fit on {}.", which, report.needed);
}

std::optional<Money> money(const SavingsView& view) {
  if (view.rules.price.empty()) {
    return std::nullopt;
  }
  Money sum;
  std::set<std::string> unpriced;
  for (const SavingsGroup& group : view.report.groups) {
    if (!group.price) {
      if (group.saved() > 0) {
        unpriced.insert(group.model.empty() ? "unknown GPUs" : printable(group.model));
      }
      continue;
    }
    sum.freed += *group.price * static_cast<double>(std::max<std::int64_t>(group.saved(), 0));
    sum.nodes += *group.price * static_cast<double>(group.freed_node_gpus);
  }
  sum.unpriced.assign(unpriced.begin(), unpriced.end());
  return sum;
}

std::vector<std::string> consequences(const SavingsView& view) {
  const SavingsReport& report = view.report;
  std::vector<std::string> lines;
  if (report.measured_by.empty() && report.held > 0) {
    lines.emplace_back(
        "Nothing was measured, so every pod stays whole. Pass --prometheus URL (DCGM exporter or Tessera's "
        "metrics) or --usage FILE.");
  }
  std::int64_t empty = 0;
  std::int64_t empty_gpus = 0;
  for (const SavingsGroup& group : report.groups) {
    empty += group.empty_nodes;
    empty_gpus += group.empty_node_gpus;
  }
  const std::string already =
      empty == 0
          ? ""
          : fmt::format("Already now, without sharing, {} with {} hold{} no GPU pod.",
                        counted_text(empty, "node"), counted_text(empty_gpus, "GPU"), empty == 1 ? "s" : "");
  if (report.saved() <= 0) {
    if (report.held > 0 && empty > 0) {
      lines.push_back(already);
    }
    return lines;
  }
  const std::optional<Money> worth = money(view);
  lines.push_back(fmt::format("Sharing frees {}{}.", counted_text(report.saved(), "GPU"),
                              worth ? ", worth " + per_hour(worth->freed, view.currency) : ""));
  const std::int64_t nodes = freed_nodes(report);
  if (nodes == 0) {
    lines.emplace_back(
        "No node would be without GPU pods, so no node can be removed. The freed GPUs are room for more "
        "pods.");
  } else {
    lines.push_back(fmt::format("{} with {} would hold no GPU pod any more{}.{}", counted_text(nodes, "node"),
                                counted_text(freed_node_gpus(report), "GPU"),
                                worth ? fmt::format("; removing {} saves {}", nodes == 1 ? "it" : "them",
                                                    per_hour(worth->nodes, view.currency))
                                      : "",
                                report.other_pods_on_freed_nodes > 0
                                    ? fmt::format(" Before that, {} without GPUs must move.",
                                                  counted_text(report.other_pods_on_freed_nodes, "pod"))
                                    : ""));
  }
  if (empty > 0) {
    lines.push_back(already);
  }
  if (worth && !worth->unpriced.empty()) {
    lines.push_back(fmt::format("There is no price for {}, so its GPUs are not counted in money.",
                                join_words(worth->unpriced)));
  }
  return lines;
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
  if (report.saved() <= 0 || report.outcomes.empty()) {
    return lines;
  }
  const PolicyOutcome& first = report.outcomes.front();
  std::int64_t at_least = 0;
  for (const SavingsGroup& group : report.groups) {
    at_least += group.at_least;
  }
  lines.push_back(
      fmt::format("{} is the result if the pods with the fewest possible nodes and the largest shares are "
                  "placed first. {}",
                  first.gpus,
                  first.most == first.fewest
                      ? fmt::format("{} random orders gave the same number.", SavingsReport::kOrders)
                      : fmt::format("In {} random orders, the pods needed {} to {} GPUs.",
                                    SavingsReport::kOrders, first.fewest, first.most)));
  lines.push_back(fmt::format(
      "No placement can need fewer than {}: that is the sum of the shares, and the pods that stay whole.",
      counted_text(at_least, "GPU")));
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
                                    view.utilization.text(), rules.max_utilization, rules.gpu_utilization));
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
