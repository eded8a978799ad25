// extender/decisions.h
//
// Computes the responses of filter, prioritize and preempt from the ClusterState alone. Each call
// appends the JSON of its response to `out`. Nothing here blocks or changes the ClusterState. Used
// only on the event loop's thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "extender/args.h"
#include "extender/cluster_state.h"
#include "extender/rank_cache.h"

namespace tessera::extender {

class Decisions {
 public:
  // `state` must outlive this object.
  explicit Decisions(ClusterState& state);

  // Numbers of nodes.
  struct FilterSummary {
    std::size_t fit = 0;           // includes nodes that filter_best() leaves out
    std::size_t failed = 0;        // eviction may help
    std::size_t unresolvable = 0;  // eviction cannot help
    std::size_t may_fit_soon = 0;  // of the two above: may fit once our watch catches up
    bool invalid_request = false;  // the pod itself is refused
    bool search_ended = false;     // a search reached its limit (alloc::Reason::kSearchEnded)
    // If no node fits: the most frequent reason.
    std::string main_reason;
    // If no node fits: what is missing on the node that is nearest to fitting. Empty if eviction
    // cannot help on any node.
    std::string nearest;
  };
  // Writes
  // {"Nodes":...,"NodeNames":...,"FailedNodes":{...},"FailedAndUnresolvableNodes":{...},"Error":""}
  FilterSummary filter(const NodeArgs& args, std::string& out) { return filter(args, std::nullopt, out); }
  // Like filter(), but writes only the fitting nodes that can have the highest score after
  // kube-scheduler has added the scores of its own plugins, at most kMaxBestNodes of them. So
  // kube-scheduler has fewer nodes to score.
  // `step` is the difference between the scores of two consecutive ranks in prioritize.
  FilterSummary filter_best(const NodeArgs& args, std::int64_t step, std::string& out) {
    return filter(args, step, out);
  }

  // Writes [{"Host":...,"Score":...}]. A score is the node's rank under the policy times `step`;
  // the best node has the highest score.
  void prioritize(const NodeArgs& args, std::int64_t step, std::string& out);

  struct PreemptSummary {
    std::size_t proposed = 0;  // nodes in the call
    std::size_t kept = 0;      // nodes in the response, where eviction helps
    std::size_t spared = 0;    // proposed pods that need not be evicted
    // The search for GPUs of several containers reached its limit. Nodes where it was not certain
    // that eviction helps are left out.
    bool search_ended = false;
  };
  // Writes {"NodeNameToMetaVictims":{...}}.
  PreemptSummary preempt(const PreemptArgs& args, std::string& out);

 private:
  // The most that kube-scheduler's own plugins can add to a node, in units of our scores. Their
  // weights add up to 12, and each scores up to 100. kube-scheduler multiplies our scores by ten,
  // so 1,200 of theirs equal 120 of ours.
  static constexpr std::int64_t kMaxPluginScore = 120;
  // kube-scheduler itself considers this many nodes enough to choose from.
  static constexpr std::size_t kMaxBestNodes = 100;

  // An additional value in reasons_: the node fits, but filter_best() leaves it out.
  static constexpr std::size_t kSurpassed = alloc::kReasons;
  using Counts = std::array<std::size_t, alloc::kReasons + 1>;  // by reason

  // The text between two node names in the response of prioritize. It has the score of the first
  // of these two nodes:
  // ,"Score":256},{"Host":
  struct Tail {
    std::array<char, 64> text{};  // longer than needed, because BlockWriter reads past the end
    std::size_t size = 0;
  };
  static Tail tail_of(std::int64_t score);

  // `best_step` is the step of filter_best(); empty for filter().
  FilterSummary filter(const NodeArgs& args, std::optional<std::int64_t> best_step, std::string& out);
  [[nodiscard]] RankCache::NodeRanks ranks_of(const alloc::Request& request);
  // Sets the reason to kSurpassed for each node that fits but that filter_best() leaves out.
  void keep_best(const alloc::Request& request, const NodeArgs& args, std::int64_t step);
  // Returns the nodes of the list that the ledger knows, in the order of the list.
  [[nodiscard]] std::span<const alloc::NodeId> known_of(const NodeList& list);
  [[nodiscard]] std::string phrase_of(std::size_t reason, const WaitingPod& pod) const;
  // Explains the node with the most free capacity among those where eviction may help.
  [[nodiscard]] std::string nearest_of(const alloc::Request& request,
                                       std::span<const alloc::NodeId> nodes) const;
  // Fills reasons_ with one reason for each node of the list.
  void judge(const alloc::Request& request, const NodeArgs& args);
  // Writes the nodes with reason kFits and counts them in summary.fit. Returns the number of other
  // nodes by reason.
  Counts write_fitting(const NodeArgs& args, FilterSummary& summary, std::string& out) const;
  // Writes FailedNodes, or FailedAndUnresolvableNodes if `unresolvable`.
  void write_failed(const NodeArgs& args, const WaitingPod& pod, const Counts& counts, bool unresolvable,
                    std::string& out) const;
  // Rejects all nodes as unresolvable, for a pod that is itself invalid.
  static FilterSummary reject_all(const NodeArgs& args, const std::string& reason, std::string& out);
  struct NeededVictims {
    std::vector<Victim> pods{};
    std::int64_t pdb_violations = 0;  // how many of them violate a PodDisruptionBudget
  };
  // Returns which of the victims that kube-scheduler proposes on a node must be evicted so that the
  // pod fits. If it proposes none, considers all GPU pods of lower priority there. Prefers the
  // fewest violations of PodDisruptionBudgets, then the fewest pods, then the lowest priorities.
  //
  // If the pod needs no GPU of the proposed victims, returns all proposed victims, because
  // kube-scheduler needs something else that they hold. Returns nullopt if the pod does not fit
  // even without all victims, or if no victim was proposed and none is needed.
  [[nodiscard]] std::optional<NeededVictims> needed_victims(const alloc::Request& request,
                                                            std::int64_t priority,
                                                            const NodeVictims& proposed,
                                                            alloc::SearchBudget& budget);
  // Returns the bound pods of the node with a lower priority, highest priority first.
  [[nodiscard]] std::vector<Victim> lower_priority_holders(alloc::NodeId node, std::int64_t priority) const;

  ClusterState& state_;
  // Buffers that calls reuse.
  std::vector<alloc::Reason> reasons_;        // one for each node of the list
  std::vector<alloc::NodeId> known_;          // nodes of the list that the ledger knows
  std::vector<alloc::Reason> known_reasons_;  // one for each of known_
  RankCache rank_cache_;
  std::vector<Tail> tails_;           // by rank
  std::int64_t tail_step_ = 0;        // the step of tails_
  std::uint64_t policy_changes_ = 0;  // state_.policy_changes() when rank_cache_ was filled
};

// Write a response of filter or bind with this error, which kube-scheduler shows to users.
// For a bind, "" means success.
void write_filter_error(std::string_view text, std::string& out);
void write_bind_result(std::string_view error, std::string& out);

}  // namespace tessera::extender
