// extender/cluster_state.h
//
// Everything that the extender knows about the cluster: the ledger, requests of unbound pods,
// priorities, disruption budgets.
//
// Watches (watch_sinks.h) and binds update it. Filter, prioritize and preempt read it. Used only on
// the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "alloc/ledger.h"
#include "alloc/original_record.h"
#include "alloc/placer.h"
#include "alloc/pod.h"
#include "alloc/request.h"
#include "alloc/typical.h"
#include "base/result.h"
#include "extender/budgets.h"
#include "extender/node_index.h"

namespace tessera::extender {

// An unbound pod with GPU limits.
struct WaitingPod {
  alloc::PodKey key;
  bool asks_for_gpus = false;  // false if all its limits are 0
  // The request, or why it is invalid.
  Result<alloc::Request> request;
  // Which annotations of a record the pod already has, although it is unbound. A pod has such
  // annotations if it was created as a copy of another pod. The bind overwrites them.
  alloc::RecordKeys record_keys = 0;
  // False if the request was too long to be stored.
  bool has_request = true;
};

// The pods of the agent on a node: one is ready, none of them is ready, or the last one was removed.
enum class AgentState : std::uint8_t { kReady, kDown, kGone };

class ClusterState {
 public:
  struct Options {
    alloc::Ledger::Options ledger;
    alloc::Placer::Options placer;
  };

  explicit ClusterState(Options options);
  ClusterState(const ClusterState&) = delete;
  ClusterState& operator=(const ClusterState&) = delete;

  // Store or remove an object. Pods, nodes and lists may arrive in any order.
  //
  // The search tables for a new topology of many GPUs take milliseconds. A node gets such tables
  // once per round; if its topology changes again, the node is stored at the end of the round.
  void keep_pod(const alloc::PodSpec& pod, alloc::PodSource source = alloc::PodSource::kWatch);
  void forget_pod(std::string_view uid);
  void keep_node(const alloc::NodeSpec& node);
  void forget_node(std::string_view name);
  // Stores the indices of the unhealthy GPUs that the ConfigMap unhealthy-gpu-NODE lists: "1,3", or
  // "" for none. The list is used only for nodes that run the device plugin of the original.
  void keep_unhealthy(const std::string& node, std::string gpus);

  // Stores the state of the agent of a node, and fences the node unless the agent is ready. The
  // state may arrive before the node is known. A node that is removed and added again stays fenced
  // while its agent is kDown; kGone is forgotten with the node.
  void keep_agent(const std::string& node, AgentState agent);

  // The nodes whose agent is shutting down and waits for the extender's acknowledgement: node name
  // -> value of tessera.io/draining.
  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& draining() const { return draining_; }

  // Ends a round (see keep_node): stores the delayed nodes and returns their names. Call it periodically.
  std::vector<std::string> end_round();
  // How many changes of nodes had to wait for the end of a round so far.
  [[nodiscard]] std::uint64_t delayed_changes() const { return delayed_changes_; }

  // Parses the request of a pod. Does not store it.
  [[nodiscard]] WaitingPod waiting_pod(const alloc::PodSpec& pod) const;
  // Returns an unbound GPU pod. Returns null if the watch has not shown the pod, if it is bound, or
  // if its request was too long to be kept. The caller then fetches the pod.
  [[nodiscard]] const WaitingPod* find_waiting(std::string_view uid) const;
  // Returns the priority of a bound GPU pod, and 0 for any other pod.
  [[nodiscard]] std::int64_t priority(std::string_view uid) const;

  // Sets a function to call when the first node with the device plugin of the original appears.
  // While there is only one such node, the function is called again at each change of the node.
  void on_original_nodes(std::function<void()> call) { on_original_nodes_ = std::move(call); }
  // Returns the number of unbound pods that request GPUs. Pods whose GPU limits are all 0 are not
  // counted. find_waiting() returns such pods, because kube-scheduler asks the extender to bind
  // them, too.
  [[nodiscard]] std::size_t waiting_pods() const { return waiting_for_gpus_; }

  // Returns the number of bound GPU pods that kubelet has rejected since the start, usually because
  // no agent was registered.
  [[nodiscard]] std::uint64_t pods_lost() const { return pods_lost_; }

  // The nodes that exist, by name.
  [[nodiscard]] const NodeIndex& node_index() const { return index_; }

  // Stores the labels of a pod. Separate from keep_pod(), because Binder calls keep_pod() with pods
  // whose labels it has not read.
  void keep_labels(const alloc::PodSpec& pod, std::span<const objects::LabelHash> labels);
  [[nodiscard]] Budgets& budgets() { return budgets_; }
  [[nodiscard]] const Budgets& budgets() const { return budgets_; }

  [[nodiscard]] alloc::Ledger& ledger() { return ledger_; }
  [[nodiscard]] const alloc::Ledger& ledger() const { return ledger_; }
  [[nodiscard]] alloc::Placer& placer() { return *placer_; }
  [[nodiscard]] const alloc::ResourceNames& names() const { return ledger_.options().names; }
  [[nodiscard]] alloc::Unit unit() const { return ledger_.options().unit; }

  // The policy `fgd` keeps room for typical pods. If the configuration does not name typical pods,
  // this function sets them to the requests of recent pods. Does nothing if no new pod arrived
  // since the last call. Otherwise all scores are computed again, so do not call it for every pod.
  void learn_typical_pods();

  // Replaces the policies. The ledger stays as it is.
  void set_policies(alloc::Placer::Options options);
  // Number of calls of set_policies().
  [[nodiscard]] std::uint64_t policy_changes() const { return policy_changes_; }
  [[nodiscard]] const alloc::Placer::Options& policies() const { return placer_options_; }

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  template <class Value>
  using ByText = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

  // The lists of models and UUIDs in all stored requests have at most this many bytes together. A
  // request without lists is always stored.
  static constexpr std::size_t kMostListBytes = 16U << 20U;

  void put_node(const alloc::NodeSpec& node);
  void add_waiting(const std::string& uid, WaitingPod pod);
  void remove_waiting(std::string_view uid);

  alloc::Ledger ledger_;
  NodeIndex index_;
  alloc::Placer::Options placer_options_;
  std::unique_ptr<alloc::Placer> placer_;
  ByText<WaitingPod> waiting_;        // by UID
  std::size_t waiting_for_gpus_ = 0;  // how many of waiting_ request GPUs
  std::size_t list_bytes_ = 0;        // of the requests in waiting_
  ByText<std::int64_t> priorities_;   // of bound GPU pods by UID, if not 0
  // Nodes with the device plugin of the original, by name. keep_unhealthy() needs them to store
  // such a node in the ledger again.
  ByText<alloc::NodeSpec> original_nodes_;
  ByText<std::string> unhealthy_;                // lists of the original's ConfigMaps, by node name
  std::unordered_set<std::string> agents_down_;  // nodes with an agent that is kDown
  std::unordered_set<std::string> agents_gone_;  // existing nodes whose agent is kGone
  std::map<std::string, std::string, std::less<>> draining_;
  std::function<void()> on_original_nodes_;
  std::set<std::string, std::less<>> got_tables_;                // nodes, in this round
  std::map<std::string, alloc::NodeSpec, std::less<>> delayed_;  // nodes to store at the end of the round
  std::uint64_t delayed_changes_ = 0;
  Budgets budgets_;
  std::uint64_t policy_changes_ = 0;
  std::uint64_t pods_lost_ = 0;
  alloc::RequestHistogram recent_;  // requests of recent pods
  bool recent_changed_ = false;     // recent_ changed since learn_typical_pods()
};

}  // namespace tessera::extender
