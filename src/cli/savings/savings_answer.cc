// The answer of `tessera savings` and its consequences, in sentences.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/strings.h"
#include "cli/output/safe_output.h"
#include "cli/savings/savings_words.h"

namespace tessera::cli {

namespace {

constexpr double kHoursPerMonth = 730;

std::string per_hour(double amount, const std::string& currency) {
  return fmt::format("{} {} per hour, {} {} per month", number_text(amount, 2), currency,
                     number_text(amount * kHoursPerMonth, 0), currency);
}

// Returns `before` and the amount, or "" if nothing has a price.
std::string amount_text(const std::string& before, const Amount& amount, const std::string& currency) {
  if (!amount.known) {
    return "";
  }
  return before + (amount.unpriced.empty()
                       ? per_hour(*amount.known, currency)
                       : fmt::format("at least {} (no price for {})", per_hour(*amount.known, currency),
                                     join_words(amount.unpriced)));
}

// Adds up the price of `gpus` of each group.
template <class Gpus>
Amount amount_of(const SavingsReport& report, Gpus gpus) {
  Amount amount;
  std::set<std::string> unpriced;
  for (const SavingsGroup& group : report.groups) {
    const std::int64_t count = gpus(group);
    if (count > 0 && group.price) {
      amount.known = amount.known.value_or(0) + *group.price * static_cast<double>(count);
    } else if (count > 0) {
      unpriced.insert(group.model.empty() ? "GPUs of unknown model" : printable(group.model));
    }
  }
  amount.unpriced.assign(unpriced.begin(), unpriced.end());
  return amount;
}

template <class Count>
std::int64_t sum_of(const SavingsReport& report, Count count) {
  std::int64_t sum = 0;
  for (const SavingsGroup& group : report.groups) {
    sum += count(group);
  }
  return sum;
}

// Returns what is not known about a pod that stays whole for this reason; "" if all is known.
std::string_view unknown_text(Whole why) {
  switch (why) {
    case Whole::kExcluded:
      return "excluded by --namespace, --exclude-namespace or --selector";
    case Whole::kUnknownModel:
      return "on a GPU of unknown model";
    case Whole::kUnknownGpuMemory:
      return "on a GPU of unknown memory";
    case Whole::kTooYoung:
      return "too young";
    case Whole::kNoMemoryMeasured:
      return "without measurements";
    case Whole::kNoUtilizationMeasured:
      return "without a measured utilization";
    case Whole::kSeveralGpus:
    case Whole::kOtherVendor:
    case Whole::kTooBusy:
    case Whole::kTooLarge:
    case Whole::kNoRoom:
      break;
  }
  return "";
}

// The pods that hold one GPU each, by what is known about them.
struct Knowledge {
  std::int64_t pods = 0;
  std::int64_t unknown = 0;
  std::map<Whole, std::int64_t> why{};  // of the unknown ones

  [[nodiscard]] std::int64_t count(Whole reason) const {
    const auto found = why.find(reason);
    return found == why.end() ? 0 : found->second;
  }
};

Knowledge knowledge_of(const SavingsReport& report) {
  Knowledge knowledge;
  for (const SavingsPod& pod : report.pods) {
    if (pod.gpus != 1 || pod.whole == Whole::kOtherVendor || pod.whole == Whole::kSeveralGpus) {
      continue;
    }
    knowledge.pods += 1;
    if (pod.whole && !unknown_text(*pod.whole).empty()) {
      knowledge.unknown += 1;
      knowledge.why[*pod.whole] += 1;
    }
  }
  return knowledge;
}

// Says why the answer is unknown: "0 of 24 single-GPU pods have measurements".
std::string unknown_answer(const SavingsReport& report, const Knowledge& knowledge) {
  if (report.measured_by.empty()) {
    return "nothing was measured";
  }
  const std::string all = fmt::format("{} single-GPU pods", knowledge.pods);
  if (knowledge.count(Whole::kNoMemoryMeasured) == knowledge.pods) {
    return fmt::format(
        "0 of {} have measurements{}", all,
        report.unmatched_rows == 0
            ? ""
            : fmt::format("; {} of {} match{} no pod",
                          counted_text(static_cast<std::int64_t>(report.unmatched_rows), "row"),
                          report.measured_by, report.unmatched_rows == 1 ? "es" : ""));
  }
  if (knowledge.count(Whole::kNoMemoryMeasured) + knowledge.count(Whole::kNoUtilizationMeasured) ==
      knowledge.pods) {
    return fmt::format("0 of {} have both memory and utilization measured", all);
  }
  std::vector<std::string> parts;
  for (const auto& [why, count] : knowledge.why) {
    parts.push_back(fmt::format("{} {} {}", count, count == 1 ? "is" : "are", unknown_text(why)));
  }
  return fmt::format("of {}, {}", all, join_words(parts));
}

// Returns what to do about missing measurements; "" if nothing is missing.
std::string advice(const SavingsReport& report, const Knowledge& knowledge) {
  if (report.measured_by.empty()) {
    return "Without measurements, every pod stays whole. Pass --prometheus URL (DCGM exporter or Tessera's "
           "metrics) or --usage FILE.";
  }
  if (report.saved() <= 0 && knowledge.why.contains(Whole::kNoUtilizationMeasured)) {
    return "A pod whose utilization was not measured stays whole. Measure it, or pass "
           "--ignore-utilization to plan by memory only.";
  }
  return "";
}

std::string freed_nodes_text(const SavingsView& view, const std::optional<Money>& worth) {
  const SavingsReport& report = view.report;
  const std::int64_t nodes =
      sum_of(report, [](const SavingsGroup& group) { return std::ssize(group.freed_nodes); });
  if (nodes == 0) {
    return "Each node that holds GPU pods now would still hold some, so no node can be removed. The "
           "freed GPUs are room for more pods.";
  }
  const std::int64_t gpus = sum_of(report, [](const SavingsGroup& group) { return group.freed_node_gpus; });
  const std::string removing = nodes == 1 ? "; removing it saves " : "; removing them saves ";
  return fmt::format("{} with {} would hold no GPU pod any more{}.{}", counted_text(nodes, "node"),
                     counted_text(gpus, "GPU"),
                     worth ? amount_text(removing, worth->nodes, view.currency) : "",
                     report.other_pods_on_freed_nodes > 0
                         ? fmt::format(" Before that, {} without GPUs must move.",
                                       counted_text(report.other_pods_on_freed_nodes, "pod"))
                         : "");
}

// About nodes without GPU pods now; "" if there are none.
std::string empty_nodes_text(const SavingsView& view, const std::optional<Money>& worth) {
  const std::int64_t nodes = sum_of(view.report, [](const SavingsGroup& group) { return group.empty_nodes; });
  if (nodes == 0) {
    return "";
  }
  const std::int64_t gpus =
      sum_of(view.report, [](const SavingsGroup& group) { return group.empty_node_gpus; });
  const std::string removing = nodes == 1 ? "; removing it saves " : "; removing them saves ";
  return fmt::format("Already now, without sharing, {} with {} hold{} no GPU pod{}.",
                     counted_text(nodes, "node"), counted_text(gpus, "GPU"), nodes == 1 ? "s" : "",
                     worth ? amount_text(removing, worth->empty, view.currency) : "");
}

}  // namespace

std::int64_t unknown_pods(const SavingsView& view) {
  return knowledge_of(view.report).unknown;
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
  if (report.saved() > 0) {
    return fmt::format("The pods on {} fit on {}.", which, report.needed);
  }
  const Knowledge knowledge = knowledge_of(report);
  if (knowledge.unknown == 0) {
    return fmt::format("The pods on {} need all of them: sharing would save nothing.", which);
  }
  if (knowledge.unknown == knowledge.pods) {
    return fmt::format("What sharing would save cannot be said: {}.", unknown_answer(report, knowledge));
  }
  return fmt::format(
      "The pods on {} need all of them, as far as is known: too little is known about {} of {} single-GPU "
      "pods.",
      which, knowledge.unknown, knowledge.pods);
}

std::optional<Money> money(const SavingsView& view) {
  if (view.rules.price.empty()) {
    return std::nullopt;
  }
  Money sum;
  sum.freed = amount_of(view.report, [](const SavingsGroup& group) { return group.saved(); });
  sum.nodes = amount_of(view.report, [](const SavingsGroup& group) { return group.freed_node_gpus; });
  sum.empty = amount_of(view.report, [](const SavingsGroup& group) { return group.empty_node_gpus; });
  return sum;
}

std::vector<std::string> consequences(const SavingsView& view) {
  const SavingsReport& report = view.report;
  std::vector<std::string> lines;
  if (report.held == 0) {
    return lines;
  }
  const std::optional<Money> worth = money(view);
  lines.push_back(advice(report, knowledge_of(report)));
  if (report.saved() > 0) {
    lines.push_back(fmt::format("Sharing frees {}{}.", counted_text(report.saved(), "GPU"),
                                worth ? amount_text(", worth ", worth->freed, view.currency) : ""));
    lines.push_back(freed_nodes_text(view, worth));
  }
  lines.push_back(empty_nodes_text(view, worth));
  if (worth && !worth->freed.known && !worth->freed.unpriced.empty()) {
    lines.push_back(fmt::format("The value of the freed GPUs is unknown: there is no price for {}.",
                                join_words(worth->freed.unpriced)));
  }
  std::erase(lines, "");
  return lines;
}

}  // namespace tessera::cli
