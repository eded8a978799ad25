#include "cli/savings/option_matches.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "cli/output/messages.h"
#include "cli/savings/gpu_limits.h"

namespace tessera::cli {

namespace {

constexpr std::size_t kMostNames = 10;

std::vector<std::string> sorted(const std::set<std::string>& names) {
  return {names.begin(), names.end()};
}

void check_models(std::string_view option, const ByModel& numbers, const SavingsReport& report,
                  std::vector<std::string>& warnings) {
  std::set<std::string> models;
  for (const SavingsGroup& group : report.groups) {
    models.insert(group.model.empty() ? "unknown" : group.model);
  }
  for (const auto& [words, number] : numbers.models) {
    const bool found = std::ranges::any_of(
        report.groups, [&](const SavingsGroup& group) { return alloc::model_matches(group.model, words); });
    if (!found && !models.empty()) {
      warnings.push_back(fmt::format("{} {}: no GPU has this model; the models are {}", option,
                                     in_quotes(words), some_of(sorted(models), kMostNames)));
    }
  }
}

void check_namespaces(std::string_view option, const std::vector<std::string>& wanted,
                      const SavingsReport& report, std::vector<std::string>& warnings) {
  std::set<std::string> existing;
  for (const SavingsPod& pod : report.pods) {
    existing.insert(pod.namespace_name);
  }
  for (const std::string& name : wanted) {
    if (!existing.contains(name) && !existing.empty()) {
      warnings.push_back(fmt::format("{} {}: no pod there holds a GPU; the namespaces of such pods are {}",
                                     option, in_quotes(name), some_of(sorted(existing), kMostNames)));
    }
  }
}

bool selects_any(const Cluster& cluster, const SavingsRules& rules) {
  return std::ranges::any_of(cluster.pods, [&](const alloc::PodSpec& pod) {
    const auto details = cluster.details.find(pod.uid);
    return limits_of(pod, rules).any() && details != cluster.details.end() &&
           rules.selector.matches(details->second.labels);
  });
}

}  // namespace

std::vector<std::string> unmatched_options(const Cluster& cluster, const SavingsRules& rules,
                                           const SavingsReport& report) {
  std::vector<std::string> warnings;
  check_models("--price", rules.price, report, warnings);
  check_models("--gpu-memory", rules.gpu_memory_mib, report, warnings);
  check_namespaces("--namespace", rules.namespaces, report, warnings);
  check_namespaces("--exclude-namespace", rules.excluded_namespaces, report, warnings);
  if (!rules.selector.text().empty() && !report.pods.empty() && !selects_any(cluster, rules)) {
    warnings.push_back(
        fmt::format("--selector {}: no pod with GPUs has these labels", in_quotes(rules.selector.text())));
  }
  if (!rules.pool_label.empty() && !report.groups.empty() &&
      std::ranges::all_of(report.groups, [](const SavingsGroup& group) { return group.pool.empty(); })) {
    warnings.push_back(
        fmt::format("--pool-label {}: no GPU node has this label, so GPUs are grouped by model",
                    in_quotes(rules.pool_label)));
  }
  return warnings;
}

}  // namespace tessera::cli
