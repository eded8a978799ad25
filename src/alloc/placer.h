// alloc/placer.h
//
// Chooses nodes and GPUs for requests.
//
//   Placer placer(ledger, {.share_policy = Policy::kBinpack, .whole_policy = Policy::kRing});
//   placer.filter(request, nodes, reasons);     // which nodes fit, and why the others do not
//   placer.score(request, nodes, scores);       // how good each node is
//   placer.choose(request, node)                // the best GPUs of one node
//
// Results depend only on the ledger and the request, not on the order of nodes, GPUs or earlier
// calls. The placer caches results but has no other state. Use it on the ledger's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "alloc/choice.h"
#include "alloc/fgd_policy.h"
#include "alloc/ledger.h"
#include "alloc/reason.h"
#include "alloc/request.h"
#include "alloc/score_cache.h"
#include "alloc/search_budget.h"
#include "alloc/typical.h"
#include "alloc/whole_sets.h"
#include "topology/static_sets.h"

namespace tessera::alloc {

struct Query;
struct GpuChoice;

class Placer {
 public:
  struct Options {
    // The policies for pods that do not name one. If share_policy is `fgd`, nodes for whole-GPU
    // pods are ranked by ring bandwidth first and by `fgd` second.
    Policy share_policy = Policy::kBinpack;
    Policy whole_policy = Policy::kRing;
    // Tables of `static`. Machine types that they do not list use `ring`.
    std::shared_ptr<const topology::StaticSets> static_sets{};
    // The pods that `fgd` keeps room for. If the list is empty, all choices are equally good to
    // `fgd`.
    std::vector<TypicalRequest> typical{};
    // Also check that CPU and memory suffice. The extender does not set this, because
    // kube-scheduler has already checked them.
    bool check_cpu_and_memory = false;
  };

  // The ledger must outlive the placer.
  explicit Placer(const Ledger& ledger);
  Placer(const Ledger& ledger, Options options);
  ~Placer();
  Placer(const Placer&) = delete;
  Placer& operator=(const Placer&) = delete;

  // Writes for each of `nodes` why the request does not fit there, or kFits. `reasons` is as long
  // as `nodes`.
  void filter(const Request& request, std::span<const NodeId> nodes, std::span<Reason> reasons);

  // Writes for each of `nodes` the score of its best choice, or kDoesNotFit. `scores` is as long as
  // `nodes`.
  void score(const Request& request, std::span<const NodeId> nodes, std::span<Score> scores);

  // Returns the best choice on one node. Fails with kExhausted and the reason phrase if the request
  // does not fit.
  [[nodiscard]] Result<Choice> choose(const Request& request, NodeId node);

  // Return the best choice on `nodes`, or on all nodes of the ledger. Of equally good nodes, the
  // first by name is chosen. Return kExhausted if no node fits.
  [[nodiscard]] Result<Choice> choose_best(const Request& request, std::span<const NodeId> nodes);
  [[nodiscard]] Result<Choice> choose_best(const Request& request) {
    return choose_best(request, ledger_->nodes());
  }

  // Returns why the request does not fit on the node, or kFits.
  [[nodiscard]] Reason reason(const Request& request, NodeId node);
  // Returns the GPUs of a node, free or not, that the pod's annotations allow.
  [[nodiscard]] GpuMask allowed(const Request& request, NodeId node);

  // Returns whether the request would fit if the pods `uids` were gone. UIDs that the ledger does
  // not know, or that hold nothing on this node, are ignored. If `check_cpu_and_memory` is true,
  // also checks CPU and memory, whatever Options::check_cpu_and_memory is. A caller that asks many
  // such questions passes one budget for all of them. If the budget is used up, the result is false.
  [[nodiscard]] bool fits_without(const Request& request, NodeId node, std::span<const std::string_view> uids,
                                  SearchBudget& budget, bool check_cpu_and_memory = false);

  // Replaces Options::typical.
  void set_typical(std::vector<TypicalRequest> typical) { fgd_.set_typical(std::move(typical)); }

  [[nodiscard]] Policy share_policy(const Request& request) const;
  [[nodiscard]] Policy whole_policy(const Request& request) const;

 private:
  [[nodiscard]] Query prepare(const Request& request, SearchBudget& budget);
  [[nodiscard]] GpuMask allowed(const Query& query, const NodeView& view) const;
  // Checks everything except free GPUs: fence, plugin, MPS, and CPU and memory if enabled.
  [[nodiscard]] bool may_serve(const Query& query, const NodeView& view) const;
  // Whether there is any choice on the node.
  bool fits(const Query& query, const NodeView& view);
  // Writes the best choice; returns false if there is none.
  bool choose_gpus(const Query& query, const NodeView& view, GpuChoice& choice);
  bool choose_by_fgd(const Query& query, const NodeView& view, GpuMask may, GpuChoice& choice);
  [[nodiscard]] MachineNames machine_names(NodeId id) const;
  bool choose_whole(const Query& query, const NodeView& view, GpuMask may_take, GpuChoice& choice);
  [[nodiscard]] Score score_of(const Query& query, const NodeView& view, const GpuChoice& choice) const;
  Score compute_score(const Query& query, NodeId node, GpuChoice& choice);
  [[nodiscard]] Reason why_not(const Query& query, NodeId node) const;
  // Only for queries with plain_share or plain_whole. These functions ignore CPU and memory.
  [[nodiscard]] Reason reason_plain(const Query& query, NodeId node) const;
  [[nodiscard]] Reason why_not_plain(const Query& query, NodeId node) const;
  [[nodiscard]] Reason why_not_model(const Query& query, NodeId node) const;
  [[nodiscard]] Reason why_not_free(const Query& query, NodeId node) const;
  [[nodiscard]] Reason why_not_gpus(const Query& query, const NodeView& view, GpuMask may) const;
  [[nodiscard]] Choice choice_of(const Query& query, const NodeView& view, const GpuChoice& choice);
  // A container's shares by slot; GpuShare::gpu is set later.
  using SharesBySlot = std::map<unsigned, GpuShare>;
  static void add_shares(const Query& query, const GpuChoice& choice, std::span<SharesBySlot> shares);
  void add_whole(const Query& query, const NodeView& view, GpuMask set, std::span<SharesBySlot> shares);

  const Ledger* ledger_;
  Options options_;
  WholeSets whole_sets_;
  FgdPolicy fgd_;
  ScoreCache cache_;
};

}  // namespace tessera::alloc
