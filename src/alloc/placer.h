// alloc/placer.h
//
// Decides where pods go: node and GPUs are one decision.
//
//   Placer placer(ledger, {.share_policy = Policy::kBinpack, .whole_policy = Policy::kRing});
//   placer.filter(request, nodes, reasons);     // which nodes can, and why the others cannot
//   placer.score(request, nodes, scores);       // how good each is; equal scores mean equally good
//   placer.choose(request, node)                // the GPUs there
//
// Answers depend on the ledger and the request alone: not on the order of nodes, of GPUs or of earlier
// questions. Nothing is remembered but results that could be computed again. One thread, the ledger's.
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
#include "alloc/typical.h"
#include "alloc/whole_sets.h"
#include "topology/static_sets.h"

namespace tessera::alloc {

struct Query;
struct GpuChoice;

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
  [[nodiscard]] Result<Choice> choose_best(const Request& request, std::span<const NodeId> nodes);
  [[nodiscard]] Result<Choice> choose_best(const Request& request) { return choose_best(request, ledger_->nodes()); }

  [[nodiscard]] Reason reason(const Request& request, NodeId node);
  // The GPUs of a node, free or not, that the pod's annotations allow.
  [[nodiscard]] GpuMask allowed(const Request& request, NodeId node);

  // Returns whether the request would fit if the pods `uids` were gone; UIDs that the ledger does not know, or
  // that hold nothing on this node, are ignored. With `check_cpu_and_memory` also compares CPU and memory,
  // whatever Options says.
  [[nodiscard]] bool fits_without(const Request& request, NodeId node, std::span<const std::string_view> uids,
                                  bool check_cpu_and_memory = false);

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
  bool choose_gpus(const Query& query, const NodeView& view, GpuChoice& choice);
  bool choose_by_fgd(const Query& query, const NodeView& view, GpuMask may, GpuChoice& choice);
  [[nodiscard]] MachineNames machine_names(NodeId id) const;
  bool choose_whole(const Query& query, const NodeView& view, GpuMask may_take, GpuChoice& choice);
  [[nodiscard]] Score score_of(const Query& query, const NodeView& view, const GpuChoice& choice) const;
  Score work_out(const Query& query, NodeId node, GpuChoice& choice);
  [[nodiscard]] Reason why_not(const Query& query, NodeId node) const;
  // For Query::plain_share and plain_whole, CPU and memory aside.
  [[nodiscard]] Reason reason_plain(const Query& query, NodeId node) const;
  [[nodiscard]] Reason why_not_plain(const Query& query, NodeId node) const;
  [[nodiscard]] Reason why_not_model(const Query& query, NodeId node) const;
  [[nodiscard]] Reason why_not_free(const Query& query, NodeId node) const;
  [[nodiscard]] Reason why_not_gpus(const Query& query, const NodeView& view, GpuMask may) const;
  [[nodiscard]] Choice choice_of(const Query& query, const NodeView& view, const GpuChoice& choice);
  // A container's shares, whose GPUs are named later.
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
