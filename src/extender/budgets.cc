#include "extender/budgets.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace tessera::extender {

namespace {

std::uint64_t key_of(std::string_view uid) {
  return std::hash<std::string_view>()(uid);
}

}  // namespace

void Budgets::keep(std::string_view namespace_name, std::string_view name, objects::DisruptionBudget budget) {
  budgets_.insert_or_assign({std::string(namespace_name), std::string(name)}, std::move(budget));
}

void Budgets::forget(std::string_view namespace_name, std::string_view name) {
  budgets_.erase({std::string(namespace_name), std::string(name)});
}

void Budgets::keep_labels(std::string_view uid, std::span<const objects::LabelHash> labels) {
  if (labels.empty()) {
    forget_labels(uid);
    return;
  }
  Labels& kept = labels_[key_of(uid)];
  if (std::ranges::equal(std::span(kept.first.get(), kept.count), labels)) {
    return;
  }
  kept = {.first = std::make_unique<objects::LabelHash[]>(labels.size()), .count = labels.size()};
  std::ranges::copy(labels, kept.first.get());
}

void Budgets::forget_labels(std::string_view uid) {
  labels_.erase(key_of(uid));
}

Budgets::Covering Budgets::covering(const alloc::PodKey& pod) const {
  Covering all;
  std::span<const objects::LabelHash> labels;
  if (const auto known = labels_.find(key_of(pod.uid)); known != labels_.end()) {
    labels = {known->second.first.get(), known->second.count};
  }
  for (auto entry = budgets_.lower_bound({pod.namespace_name, ""});
       entry != budgets_.end() && entry->first.first == pod.namespace_name; ++entry) {
    if (entry->second.covers(pod.name, labels)) {
      all.push_back(&entry->second);
    }
  }
  return all;
}

std::size_t Budgets::violations(const std::vector<const Covering*>& pods) {
  std::map<const objects::DisruptionBudget*, std::int64_t> evictions;
  std::size_t count = 0;
  for (const Covering* const covering : pods) {
    bool violated = false;
    for (const objects::DisruptionBudget* const budget : *covering) {
      violated = ++evictions[budget] > budget->allowed || violated;
    }
    count += violated ? 1 : 0;
  }
  return count;
}

}  // namespace tessera::extender
