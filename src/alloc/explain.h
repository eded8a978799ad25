// alloc/explain.h
//
// Explains why a pod does not fit on a node, with the details of that node: for `tessera why` and
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
  std::string phrase;  // as sent to kube-scheduler
  // For a request of shares on N GPUs: the N-th best GPU of the node, which has too little free.
  // GPUs with room rank first, the others by free memory. The fields are its NVML index, its free
  // units, and the units that it lacks. Unset if the reason is not a lack of free memory or
  // compute.
  std::optional<std::uint32_t> best_gpu;
  std::uint64_t free_units = 0;
  std::uint64_t short_units = 0;
  // For a request of whole GPUs: how many are free, and how many are missing.
  unsigned free_gpus = 0;
  unsigned short_gpus = 0;
  // The request would fit if all of these pods ended. A small set, but not always the smallest.
  // Empty if the request would not fit even on the node without pods.
  std::vector<PodHolding> blockers;
  // All of the above as one phrase for people.
  std::string text;
};

Explanation explain(const Ledger& ledger, Placer& placer, const Request& request, NodeId node);

// Free GPU capacity of the cluster, for the last line of `tessera why`.
struct FreeSummary {
  std::uint64_t units = 0;
  std::uint64_t gpus_with_room = 0;
  std::uint64_t whole_gpus = 0;
  std::uint32_t largest_units = 0;  // the largest share that would fit now
  unsigned largest_whole = 0;       // most wholly free GPUs on one node
};
FreeSummary free_summary(const Ledger& ledger, std::span<const NodeId> nodes);
inline FreeSummary free_summary(const Ledger& ledger) {
  return free_summary(ledger, ledger.nodes());
}

}  // namespace tessera::alloc
