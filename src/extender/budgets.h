// extender/budgets.h
//
// The PodDisruptionBudgets of the cluster, and what is needed of GPU pods to tell which of them they fall
// under: their labels. Fed by watches (watch_sinks.h), asked by preempt; on the event loop's thread.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "alloc/ledger.h"
#include "kube/disruption_budget.h"

namespace tessera::extender {

class Budgets {
 public:
  // Facts, in any order.
  void keep(std::string_view namespace_name, std::string_view name, kube::DisruptionBudget budget);
  void forget(std::string_view namespace_name, std::string_view name);
  // All have been brought once. Before, nobody knows whom they protect.
  void set_known() { known_ = true; }
  [[nodiscard]] bool known() const { return known_; }
  [[nodiscard]] std::size_t size() const { return budgets_.size(); }

  // As decode_pod() writes them. Pods made from one template have the same, which are kept once.
  void keep_labels(std::string_view uid, std::string_view labels);
  void forget_labels(std::string_view uid);

  // The budgets that a pod's end would be counted against; valid until the next fact.
  using Covering = std::vector<const kube::DisruptionBudget*>;
  [[nodiscard]] Covering covering(const alloc::PodKey& pod) const;

  // How many of these pods, ended in this order, some budget does not allow to be ended.
  [[nodiscard]] static std::size_t violations(const std::vector<const Covering*>& pods);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Sets = std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>>;  // with how many have it

  void drop_one(const std::string* labels);

  std::map<std::pair<std::string, std::string>, kube::DisruptionBudget> budgets_;  // by namespace and name
  Sets sets_;
  boost::unordered_flat_map<std::string, const std::string*, Hash, std::equal_to<>>
      of_pod_;  // by UID; a key of sets_
  bool known_ = false;
};

}  // namespace tessera::extender
