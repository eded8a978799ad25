// alloc/explain.h
//
// Why a pod does not fit on a node, with everything that is particular to that node: for `tessera why` and
// the extender's Event. kube-scheduler gets the short phrase of reason.h instead.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "alloc/ledger.h"
#include "alloc/placer.h"

namespace tessera::alloc {

struct Explanation {
  Reason reason = Reason::kFits;
  std::string phrase;  // as kube-scheduler hears it
  // If a share is asked for: the GPU where least is missing, of several GPUs the last one that is needed; its
  // index, what is free there and what lacks. Unset where the GPUs' memory is not what lacks.
  std::optional<std::uint32_t> best_gpu;
  std::uint64_t free_units = 0;
  std::uint64_t short_units = 0;
  // If whole GPUs are asked for: how many are free and lack.
  unsigned free_gpus = 0;
  unsigned short_gpus = 0;
  // Pods whose end, all of them, would make it fit; the fewest that a simple look finds. Empty when no end of
  // pods would.
  std::vector<PodHolding> blockers;
  // One or two sentences with all of it.
  std::string text;
};

Explanation explain(const Ledger& ledger, Placer& placer, const Request& request, NodeId node);

// What is free in the cluster, for the last line of `tessera why`.
struct FreeSummary {
  std::uint64_t units = 0;
  std::uint64_t gpus_with_room = 0;
  std::uint64_t whole_gpus = 0;
  std::uint32_t largest_units = 0;  // the largest share that would fit now
  unsigned largest_whole = 0;       // most whole GPUs on one node
};
FreeSummary free_summary(const Ledger& ledger, std::span<const NodeId> nodes);
inline FreeSummary free_summary(const Ledger& ledger) {
  return free_summary(ledger, ledger.nodes());
}

}  // namespace tessera::alloc
