// extender/budgets.h
//
// The PodDisruptionBudgets of the cluster, and the labels of GPU pods. A budget selects its pods by
// these labels. Watches (watch_sinks.h) update this object, and preempt reads it. Used only on the
// event loop's thread.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alloc/ledger.h"
#include "objects/disruption_budget.h"

namespace tessera::extender {

class Budgets {
 public:
  // Store or remove a budget.
  void keep(std::string_view namespace_name, std::string_view name, objects::DisruptionBudget budget);
  void forget(std::string_view namespace_name, std::string_view name);
  // Records that all budgets have been listed. Until then it is unknown which pods they protect.
  void set_known() { known_ = true; }
  [[nodiscard]] bool known() const { return known_; }
  [[nodiscard]] std::size_t size() const { return budgets_.size(); }

  // Store or remove the labels of a pod.
  void keep_labels(std::string_view uid, std::span<const objects::LabelHash> labels);
  void forget_labels(std::string_view uid);

  // Budgets that cover a pod. The pointers are valid until the next update.
  using Covering = std::vector<const objects::DisruptionBudget*>;
  [[nodiscard]] Covering covering(const alloc::PodKey& pod) const;

  // Returns how many evictions violate a budget if these pods are evicted in this order. Each
  // element has the budgets that cover one pod.
  [[nodiscard]] static std::size_t violations(const std::vector<const Covering*>& pods);

 private:
  // One heap allocation per pod, and none for a pod without labels, because there may be many pods.
  struct Labels {
    std::unique_ptr<objects::LabelHash[]> first;
    std::size_t count = 0;
  };

  // By namespace and name.
  std::map<std::pair<std::string, std::string>, objects::DisruptionBudget> budgets_;
  // By the hash of the pod's UID. Pods without labels have no entry.
  boost::unordered_flat_map<std::uint64_t, Labels> labels_;
  bool known_ = false;
};

}  // namespace tessera::extender
