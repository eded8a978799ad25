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
  // Set if the request is for shares on N GPUs and the node lacks free memory or compute for it.
  // The GPUs of the node are ranked: first the GPUs with enough room, then the others by free
  // memory. best_gpu is the NVML index of the GPU with rank N, which has too little room.
  // free_units are the units that are free on this GPU, short_units the units that it lacks.
  std::optional<std::uint32_t> best_gpu;
  std::uint64_t free_units = 0;
  std::uint64_t short_units = 0;
  // For a request of whole GPUs: how many GPUs are free, and how many more are needed.
  unsigned free_gpus = 0;
  unsigned short_gpus = 0;
  // The request would fit if all of these pods ended. If one pod suffices for a share of one GPU,
  // the list has only the smallest such pod. Otherwise the list is short, but not always the
  // shortest. It is empty if the request would not fit even without any pods on the node.
  std::vector<PodHolding> blockers;
  // All of the above as one phrase for people.
  std::string text;
};

// Explains why the request does not fit on the node. The reason is kFits if the request fits.
Explanation explain(const Ledger& ledger, Placer& placer, const Request& request, NodeId node);

// Free GPU capacity of the cluster, for the last line of `tessera why`.
struct FreeSummary {
  std::uint64_t units = 0;           // free units of memory on all GPUs together
  std::uint64_t gpus_with_room = 0;  // number of GPUs with at least one free unit
  std::uint64_t whole_gpus = 0;      // number of wholly free GPUs
  std::uint32_t largest_units = 0;   // units of the largest share that would fit now
  unsigned largest_whole = 0;        // the largest number of wholly free GPUs on one node
};
FreeSummary free_summary(const Ledger& ledger, std::span<const NodeId> nodes);
inline FreeSummary free_summary(const Ledger& ledger) {
  return free_summary(ledger, ledger.nodes());
}

}  // namespace tessera::alloc
