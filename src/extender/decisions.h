// extender/decisions.h
//
// Decides filter, prioritize and preempt from the ClusterState alone. Each call appends the JSON of
// its response to `out`. Nothing here blocks or changes the state. On the event loop's thread.
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

  struct FilterSummary {
    std::size_t fit = 0;  // includes nodes left out because others are better
    std::size_t failed = 0;
    std::size_t unresolvable = 0;
    std::size_t may_pass = 0;  // of the last two, nodes that may fit soon
    // If no node fits: the reason of most nodes.
    std::string main_reason;
    // If no node fits: what the nearest node lacks. Empty if free GPUs are not the issue.
    std::string nearest;
  };
  // {"Nodes":...,"NodeNames":...,"FailedNodes":{...},"FailedAndUnresolvableNodes":{...},"Error":""}
  FilterSummary filter(const NodeArgs& args, std::string& out) { return filter(args, std::nullopt, out); }
  // The same, but of the nodes that fit, returns only those that can win if ranks of prioritize are
  // `step` apart, and at most kMostBest. Then kube-scheduler has fewer nodes to score.
  FilterSummary filter_best(const NodeArgs& args, std::int64_t step, std::string& out) {
    return filter(args, step, out);
  }

  // [{"Host":...,"Score":...}]: ranks of the policy's scores times `step`. The best node has the
  // highest.
  void prioritize(const NodeArgs& args, std::int64_t step, std::string& out);

  struct PreemptSummary {
    std::size_t proposed = 0;
    std::size_t kept = 0;    // nodes where eviction would help
    std::size_t spared = 0;  // proposed pods that need not be evicted
  };
  // {"NodeNameToMetaVictims":{...}}
  PreemptSummary preempt(const PreemptArgs& args, std::string& out);

 private:
  // The most that kube-scheduler's own plugins can add to a node, in our scores of weight 1: 12
  // times 100 of theirs.
  static constexpr std::int64_t kMostOfOthers = 120;
  // kube-scheduler itself considers this many nodes enough to choose from.
  static constexpr std::size_t kMostBest = 100;

  // Not a reason for rejection: the node fits, but others are better.
  static constexpr std::size_t kSurpassed = alloc::kReasons;
  using Counts = std::array<std::size_t, alloc::kReasons + 1>;  // by reason

  // The text between two names of prioritize, with the score of the first: ,"Score":256},{"Host":
  struct Tail {
    std::array<char, 64> text{};  // longer than needed, because BlockWriter reads past the end
    std::size_t size = 0;
  };
  static Tail tail_of(std::int64_t score);

  FilterSummary filter(const NodeArgs& args, std::optional<std::int64_t> best_of_step, std::string& out);
  [[nodiscard]] RankCache::NodeRanks ranks_of(const alloc::Request& request);
  // Marks nodes that fit but cannot win as kSurpassed.
  void keep_best(const alloc::Request& request, const NodeArgs& args, std::int64_t step);
  // Returns the nodes of the list that the ledger knows, in the order of the list.
  [[nodiscard]] std::span<const alloc::NodeId> known_of(const NodeList& list);
  [[nodiscard]] std::string phrase_of(std::size_t reason, const WaitingPod& pod) const;
  // Explains the node with the most free capacity among those where eviction may help.
  [[nodiscard]] std::string nearest_of(const alloc::Request& request,
                                       std::span<const alloc::NodeId> nodes) const;
  // Fills reasons_, one for each node of the list.
  void judge(const alloc::Request& request, const NodeArgs& args);
  // Writes the nodes that fit and counts the others by reason.
  Counts write_fitting(const NodeArgs& args, FilterSummary& summary, std::string& out) const;
  void write_failed(const NodeArgs& args, const WaitingPod& pod, const Counts& counts, bool unresolvable,
                    std::string& out) const;
  static FilterSummary reject_all(const NodeArgs& args, const std::string& reason, std::string& out);
  struct NeededVictims {
    std::vector<Victim> pods{};
    std::int64_t pdb_violations = 0;  // how many of them violate a PodDisruptionBudget
  };
  // Returns the victims of the node whose eviction makes the pod fit: with the fewest violations of
  // PodDisruptionBudgets, then the fewest pods, then the lowest priorities. Returns all proposed
  // victims if the pod fits without their GPUs. Returns nothing if evicting all of them would not
  // help.
  [[nodiscard]] std::optional<NeededVictims> needed_victims(const alloc::Request& request,
                                                            std::int64_t priority,
                                                            const NodeVictims& proposed);
  [[nodiscard]] std::vector<Victim> lower_priority_holders(alloc::NodeId node, std::int64_t priority) const;

  ClusterState& state_;
  // Buffers that are reused, one element for each node of the list, or for each known one.
  std::vector<alloc::Reason> reasons_;
  std::vector<alloc::NodeId> known_;
  std::vector<alloc::Reason> known_reasons_;
  RankCache rank_cache_;
  std::vector<Tail> tails_;           // by rank
  std::int64_t tail_step_ = 0;        // the step of tails_
  std::uint64_t policy_changes_ = 0;  // of state_, when rank_cache_ was filled
};

// Write {"Error":text} in the form of each response. kube-scheduler shows the text to users.
void write_filter_error(std::string_view text, std::string& out);
void write_bind_result(std::string_view error, std::string& out);

}  // namespace tessera::extender
