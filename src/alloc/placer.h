// alloc/placer.h
//
// Decides where pods go: node and GPUs are one decision.
//
//   Placer placer(ledger, {.share_policy = Policy::kBinpack, .whole_policy = Policy::kRing});
//   placer.filter(request, nodes, reasons);     // which nodes can, and why the others cannot
//   placer.score(request, nodes, scores);       // how good each is; equal scores mean equally good
//   placer.choose(request, node)                // the GPUs there
//
// Answers depend on the books and the request alone: not on the order of nodes, of GPUs or of earlier
// questions. Nothing is remembered but results that could be computed again. One thread, the ledger's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "alloc/choice.h"
#include "alloc/fgd_places.h"
#include "alloc/ledger.h"
#include "alloc/reason.h"
#include "alloc/request.h"
#include "alloc/score_memory.h"
#include "alloc/typical.h"
#include "alloc/whole_sets.h"
#include "topology/static_sets.h"

namespace tessera::alloc {

struct Query;
struct Pick;

class Placer {
 public:
  struct Options {
    // Where a pod does not name its own. `fgd` also decides the node of whole-GPU pods, after the ring.
    Policy share_policy = Policy::kBinpack;
    Policy whole_policy = Policy::kRing;
    // Of `static`; machines that are not in it are served by `ring`.
    std::shared_ptr<const topology::StaticSets> static_sets{};
    // What `fgd` keeps room for. With none, every place is as good as any other to it.
    std::vector<TypicalRequest> typical{};
    // Also ask whether CPU and memory suffice. Not needed behind kube-scheduler, which has asked already.
    bool check_cpu_and_memory = false;
  };

  // Refers to the ledger, which must live longer.
  explicit Placer(const Ledger& ledger);
  Placer(const Ledger& ledger, Options options);
  ~Placer();
  Placer(const Placer&) = delete;
  Placer& operator=(const Placer&) = delete;

  // For each of `nodes` whether it could take the pod now. `reasons` is as long as `nodes`.
  void filter(const Request& request, std::span<const NodeId> nodes, std::span<Reason> reasons);

  // For each of `nodes` how good a place it is, kDoesNotFit where there is none.
  void score(const Request& request, std::span<const NodeId> nodes, std::span<Score> scores);

  // The best GPUs of one node. kExhausted, with the reason in words, when it does not fit.
  [[nodiscard]] Result<Choice> choose(const Request& request, NodeId node);

  // The best of these nodes, or of all that exist, and its GPUs; of equally good ones the first by name.
  [[nodiscard]] Result<Choice> place(const Request& request, std::span<const NodeId> nodes);
  [[nodiscard]] Result<Choice> place(const Request& request) { return place(request, ledger_->nodes()); }

  [[nodiscard]] Reason reason(const Request& request, NodeId node);
  // The GPUs of a node, free or not, that the pod's annotations allow.
  [[nodiscard]] GpuMask allowed(const Request& request, NodeId node);

  // Whether it would fit if these pods of the node were gone: for preemption. Pods that are not there, or
  // hold nothing, change nothing.
  [[nodiscard]] bool fits_without(const Request& request, NodeId node, std::span<const std::string> uids);

  // Replaces Options::typical.
  void set_typical(std::vector<TypicalRequest> typical) { fgd_.set_typical(std::move(typical)); }

  [[nodiscard]] Policy share_policy(const Request& request) const;
  [[nodiscard]] Policy whole_policy(const Request& request) const;

 private:
  [[nodiscard]] Query prepare(const Request& request);
  // The node as this request may use it: the GPUs that its annotations allow.
  [[nodiscard]] GpuMask allowed(const Query& query, const NodeView& view) const;
  // Whether the node as a whole may be asked: everything but free GPUs.
  [[nodiscard]] bool may_serve(const Query& query, const NodeView& view) const;
  // Whether there is any place.
  bool fits(const Query& query, const NodeView& view);
  // The best place; false if there is none.
  bool pick(const Query& query, const NodeView& view, Pick& pick);
  bool pick_by_fgd(const Query& query, const NodeView& view, GpuMask may, Pick& pick);
  [[nodiscard]] MachineNames machine_names(NodeId id) const;
  bool pick_whole(const Query& query, const NodeView& view, GpuMask may_take, Pick& pick);
  [[nodiscard]] Score score_of(const Query& query, const NodeView& view, const Pick& pick) const;
  Score work_out(const Query& query, NodeId node, Pick& pick);
  [[nodiscard]] Reason why_not(const Query& query, NodeId node) const;
  // For Query::plain_share and plain_whole, CPU and memory aside.
  [[nodiscard]] Reason reason_plain(const Query& query, NodeId node) const;
  [[nodiscard]] Reason why_not_plain(const Query& query, NodeId node) const;
  [[nodiscard]] Reason why_not_model(const Query& query, NodeId node) const;
  [[nodiscard]] Reason why_not_free(const Query& query, NodeId node) const;
  [[nodiscard]] Reason why_not_gpus(const Query& query, const NodeView& view, GpuMask may) const;
  [[nodiscard]] Choice choice_of(const Query& query, const NodeView& view, const Pick& pick);
  void add_share_grants(const Query& query, const Pick& pick, Choice& choice) const;
  void add_whole_grants(const Query& query, const NodeView& view, Choice& choice);

  const Ledger* ledger_;
  Options options_;
  WholeSets whole_sets_;
  FgdPlaces fgd_;
  ScoreMemory memory_;
};

// Scores as kube-scheduler wants them from an extender: 0 to `most`, in the same order. Only the best get
// `most`, so that nothing it rounds together with them can win.
void scale_scores(std::span<const Score> scores, std::span<std::int64_t> scaled, std::int64_t most = 10);

}  // namespace tessera::alloc
