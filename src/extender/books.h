// extender/books.h
//
// The ledger with what the extender knows beside it: what unbound pods want and who is more important than
// whom.
//
// Fed by watches (watch_sinks.h) and by binds, asked by kube-scheduler's calls; all of it on the event loop's
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "alloc/ledger.h"
#include "alloc/legacy_record.h"
#include "alloc/placer.h"
#include "alloc/pod.h"
#include "alloc/request.h"
#include "alloc/typical.h"
#include "base/result.h"
#include "extender/budgets.h"
#include "extender/node_index.h"

namespace tessera::extender {

// An unbound pod that asks for GPUs.
struct WaitingPod {
  alloc::PodKey key;
  bool asks_for_gpus = false;  // not with limits of 0 alone
  // Why its wishes make no sense, if they do not.
  Result<alloc::Request> request;
  // What it was created with, though nobody had decided about it.
  alloc::RecordKeys record_keys = 0;
};

class Books {
 public:
  struct Options {
    alloc::Ledger::Options ledger;
    alloc::Placer::Options placer;
  };

  explicit Books(Options options);
  Books(const Books&) = delete;
  Books& operator=(const Books&) = delete;

  // Facts, in any order.
  void keep_pod(const alloc::PodSpec& pod);
  void forget_pod(std::string_view uid);
  void keep_node(const alloc::NodeSpec& node);
  void forget_node(std::string_view name);
  // What ConfigMap unhealthy-gpu-NODE lists; empty for nothing. Counts only on nodes without an agent.
  void keep_unhealthy(const std::string& node, std::string gpus);

  // What a pod asks for, whoever tells it.
  [[nodiscard]] WaitingPod waiting_pod(const alloc::PodSpec& pod) const;
  // Null when no watch has shown it, or when it is bound.
  [[nodiscard]] const WaitingPod* find_waiting(std::string_view uid) const;
  // 0 for a pod without GPUs: nobody asks about those.
  [[nodiscard]] std::int64_t priority(std::string_view uid) const;

  // Called when there is a node whose GPUs the plugin before us gives out, and none was there before.
  void on_old_nodes(std::function<void()> call) { on_old_nodes_ = std::move(call); }
  // Those that want GPUs: a limit of 0 is none, though such a pod has to be bound as well.
  [[nodiscard]] std::size_t waiting_pods() const { return waiting_for_gpus_; }

  // The nodes that exist, by name.
  [[nodiscard]] const NodeIndex& node_index() const { return index_; }

  // Kept beside keep_pod(), which tells nothing of labels: Binder's looks at single pods have none.
  void keep_labels(const alloc::PodSpec& pod, std::span<const objects::LabelHash> labels);
  [[nodiscard]] Budgets& budgets() { return budgets_; }
  [[nodiscard]] const Budgets& budgets() const { return budgets_; }

  [[nodiscard]] alloc::Ledger& ledger() { return ledger_; }
  [[nodiscard]] const alloc::Ledger& ledger() const { return ledger_; }
  [[nodiscard]] alloc::Placer& placer() { return *placer_; }
  [[nodiscard]] const alloc::ResourceNames& names() const { return ledger_.options().names; }
  [[nodiscard]] alloc::Unit unit() const { return ledger_.options().unit; }

  // What `fgd` keeps room for when the configuration names nothing: the pods of late. Works only when some
  // came since the last call, and then the placer works everything out anew: not for every pod.
  void learn_typical_pods();

  // Other policies from now on; the books stay.
  void set_policies(alloc::Placer::Options options);
  // How often that happened.
  [[nodiscard]] std::uint64_t policy_changes() const { return policy_changes_; }
  [[nodiscard]] const alloc::Placer::Options& policies() const { return placer_options_; }

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  template <class Value>
  using ByText = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

  void put_node(const alloc::NodeSpec& node);
  void wait(const std::string& uid, WaitingPod pod);
  void wait_no_more(std::string_view uid);

  alloc::Ledger ledger_;
  NodeIndex index_;
  alloc::Placer::Options placer_options_;
  std::unique_ptr<alloc::Placer> placer_;
  ByText<WaitingPod> waiting_;         // by UID
  std::size_t waiting_for_gpus_ = 0;   // of these
  ByText<std::int64_t> priorities_;    // by UID, of bound GPU pods, where not 0
  ByText<alloc::NodeSpec> old_nodes_;  // by name: have to be put again when what is ill there changes
  ByText<std::string> unhealthy_;      // by node name
  std::function<void()> on_old_nodes_;
  Budgets budgets_;
  std::uint64_t policy_changes_ = 0;
  alloc::RequestHistogram recent_;
  bool recent_changed_ = false;
};

}  // namespace tessera::extender
