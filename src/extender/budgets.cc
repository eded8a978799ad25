#include "extender/budgets.h"

#include <utility>

namespace tessera::extender {

void Budgets::keep(std::string_view namespace_name, std::string_view name, kube::DisruptionBudget budget) {
  budgets_.insert_or_assign({std::string(namespace_name), std::string(name)}, std::move(budget));
}

void Budgets::forget(std::string_view namespace_name, std::string_view name) {
  budgets_.erase({std::string(namespace_name), std::string(name)});
}

void Budgets::keep_labels(std::string_view uid, std::string_view labels) {
  const auto known = of_pod_.find(uid);
  if (known != of_pod_.end() && *known->second == labels) {
    return;
  }
  auto set = sets_.find(labels);
  if (set == sets_.end()) {
    set = sets_.emplace(labels, 0).first;
  }
  ++set->second;
  if (known == of_pod_.end()) {
    of_pod_.emplace(uid, &set->first);
  } else {
    drop_one(std::exchange(known->second, &set->first));
  }
}

void Budgets::forget_labels(std::string_view uid) {
  if (const auto known = of_pod_.find(uid); known != of_pod_.end()) {
    drop_one(known->second);
    of_pod_.erase(known);
  }
}

void Budgets::drop_one(const std::string* labels) {
  const auto set = sets_.find(*labels);
  if (--set->second == 0) {
    sets_.erase(set);
  }
}

Budgets::Covering Budgets::covering(const alloc::PodKey& pod) const {
  Covering all;
  const auto labels = of_pod_.find(pod.uid);
  for (auto entry = budgets_.lower_bound({pod.pod_namespace, ""});
       entry != budgets_.end() && entry->first.first == pod.pod_namespace; ++entry) {
    if (entry->second.covers(pod.name, labels == of_pod_.end() ? std::string_view() : *labels->second)) {
      all.push_back(&entry->second);
    }
  }
  return all;
}

std::size_t Budgets::violations(const std::vector<const Covering*>& pods) {
  std::map<const kube::DisruptionBudget*, std::int64_t> ended;
  std::size_t count = 0;
  for (const Covering* const covering : pods) {
    bool violated = false;
    for (const kube::DisruptionBudget* const budget : *covering) {
      violated = ++ended[budget] > budget->allowed || violated;
    }
    count += violated ? 1 : 0;
  }
  return count;
}

}  // namespace tessera::extender
