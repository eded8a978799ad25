// extender/budgets.h
//
// The PodDisruptionBudgets of the cluster, and what is needed of GPU pods to tell which of them
// they fall under: their labels. Fed by watches (watch_sinks.h), asked by preempt; on the event
// loop's thread.
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
  // Facts, in any order.
  void keep(std::string_view namespace_name, std::string_view name, objects::DisruptionBudget budget);
  void forget(std::string_view namespace_name, std::string_view name);
  // All have been brought once. Before, nobody knows whom they protect.
  void set_known() { known_ = true; }
  [[nodiscard]] bool known() const { return known_; }
  [[nodiscard]] std::size_t size() const { return budgets_.size(); }

  void keep_labels(std::string_view uid, std::span<const objects::LabelHash> labels);
  void forget_labels(std::string_view uid);

  // The budgets that a pod's end would be counted against; valid until the next fact.
  using Covering = std::vector<const objects::DisruptionBudget*>;
  [[nodiscard]] Covering covering(const alloc::PodKey& pod) const;

  // How many of these pods, ended in this order, some budget does not allow to be ended.
  [[nodiscard]] static std::size_t violations(const std::vector<const Covering*>& pods);

 private:
  // One block of memory, and none for pods without labels: there may be very many pods.
  struct Labels {
    std::unique_ptr<objects::LabelHash[]> first;
    std::size_t count = 0;
  };

  std::map<std::pair<std::string, std::string>, objects::DisruptionBudget> budgets_;  // by namespace and name
  boost::unordered_flat_map<std::uint64_t, Labels> of_pod_;  // by the hash of the UID; only pods with labels
  bool known_ = false;
};

}  // namespace tessera::extender
