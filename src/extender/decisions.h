// extender/decisions.h
//
// The answers to filter, prioritize and preempt, from the ledger alone. Each call appends the JSON of its
// reply to `out`; nothing here waits or changes the state. One thread, the ledger'.
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
  // `state` must live longer.
  explicit Decisions(ClusterState& state);

  struct FilterSummary {
    std::size_t fit = 0;  // those too that are not named because others are better
    std::size_t failed = 0;
    std::size_t hopeless = 0;
    std::size_t may_pass = 0;  // of the last two, those that may fit in a moment
    // When nothing fits: the reason that most nodes gave.
    std::string main_reason;
    // And what the node that comes nearest lacks; empty where it is not a question of room.
    std::string nearest;
  };
  // {"Nodes":...,"NodeNames":...,"FailedNodes":{...},"FailedAndUnresolvableNodes":{...},"Error":""}
  FilterSummary filter(const NodeArgs& args, std::string& out) { return filter(args, std::nullopt, out); }
  // The same, but of the nodes that fit only those that can win when prioritize gives ranks `step` apart, and
  // at most kMostBest of them. kube-scheduler then has fewer to weigh.
  FilterSummary filter_best(const NodeArgs& args, std::int64_t step, std::string& out) {
    return filter(args, step, out);
  }

  // [{"Host":...,"Score":...}]: ranks of the policy's scores, `step` apart; the best node has the most.
  void prioritize(const NodeArgs& args, std::int64_t step, std::string& out);

  struct PreemptSummary {
    std::size_t proposed = 0;
    std::size_t kept = 0;    // nodes where evicting would help
    std::size_t spared = 0;  // pods that need not go
  };
  // {"NodeNameToMetaVictims":{...}}
  PreemptSummary preempt(const PreemptArgs& args, std::string& out);

 private:
  // What kube-scheduler's own plugins can add to a node, in our scores of weight 1: 12 times 100 of theirs.
  static constexpr std::int64_t kMostOfOthers = 120;
  // kube-scheduler itself takes so many for enough to choose from.
  static constexpr std::size_t kMostBest = 100;

  static constexpr std::size_t kSurpassed = alloc::kReasons;    // no reason to refuse: others are better
  using Counts = std::array<std::size_t, alloc::kReasons + 1>;  // by reason

  // What stands between two names of prioritize, the first of which has some score: ,"Score":256},{"Host":
  struct Tail {
    std::array<char, 64> text{};  // longer than it can be: a BlockWriter reads past it
    std::size_t size = 0;
  };
  static Tail tail_of(std::int64_t score);

  FilterSummary filter(const NodeArgs& args, std::optional<std::int64_t> best_of_step, std::string& out);
  [[nodiscard]] RankCache::NodeRanks ranks_of(const alloc::Request& request);
  // Turns the nodes that fit but cannot win into kSurpassed.
  void keep_best(const alloc::Request& request, const NodeArgs& args, std::int64_t step);
  // The nodes of the list that the ledger knows, in its order.
  [[nodiscard]] std::span<const alloc::NodeId> known_of(const NodeList& list);
  [[nodiscard]] std::string phrase_of(std::size_t reason, const WaitingPod& pod) const;
  // Of the nodes that reasons_ is about, those where room is the question.
  [[nodiscard]] std::string nearest_of(const alloc::Request& request,
                                       std::span<const alloc::NodeId> nodes) const;
  // Fills reasons_, by place in the list.
  void judge(const alloc::Request& request, const NodeArgs& args);
  // Copies the nodes that fit and counts the others.
  Counts write_fitting(const NodeArgs& args, FilterSummary& summary, std::string& out) const;
  void write_failed(const NodeArgs& args, const WaitingPod& pod, const Counts& counts, bool hopeless,
                    std::string& out) const;
  static FilterSummary refuse_all(const NodeArgs& args, const std::string& why, std::string& out);
  struct NeededVictims {
    std::vector<Victim> pods{};
    std::int64_t pdb_violations = 0;  // how many of them go against a PodDisruptionBudget
  };
  // Those of the node's victims whose end lets the pod in: as few as can be against a PodDisruptionBudget,
  // then the fewest, and of equally few the least important; all of them where it is not their GPUs that are
  // wanted. Nothing when not even all would do.
  [[nodiscard]] std::optional<NeededVictims> needed_victims(const alloc::Request& request,
                                                            std::int64_t priority,
                                                            const NodeVictims& proposed);
  [[nodiscard]] std::vector<Victim> less_important_holders(alloc::NodeId node, std::int64_t priority) const;

  ClusterState& state_;
  // Used again from call to call. By place in the body's list, or of the known among them.
  std::vector<alloc::Reason> reasons_;
  std::vector<alloc::NodeId> known_;
  std::vector<alloc::Reason> known_reasons_;
  RankCache rank_cache_;
  std::vector<Tail> tails_;           // by rank
  std::int64_t tail_step_ = 0;        // between two of them
  std::uint64_t policy_changes_ = 0;  // of the state, when rank_cache_ was filled
};

// {"Error":text} in the form of each answer; kube-scheduler shows the text to people.
void write_filter_error(std::string_view text, std::string& out);
void write_bind_result(std::string_view error, std::string& out);

}  // namespace tessera::extender
