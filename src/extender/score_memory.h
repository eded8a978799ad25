// extender/score_memory.h
//
// How good every node is for a pod, without working it out again. Pods come in sets of equal ones, and
// between two of them a node or two have changed: only these are asked about anew. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "alloc/ledger.h"
#include "alloc/placer.h"
#include "alloc/request.h"
#include "extender/ranks.h"

namespace tessera::extender {

class ScoreMemory {
 public:
  struct Standing {
    // By NodeId: 0 where the pod does not fit, 1 for the worst node where it does, more for better ones;
    // equal where they are equally good.
    std::span<const std::uint32_t> ranks;
    std::uint32_t best = 0;
  };
  // Among all nodes of the ledger. Valid until the next call.
  Standing standing(const alloc::Ledger& ledger, alloc::Placer& placer, const alloc::Request& request);

  // The placer is another one.
  void forget() { known_.clear(); }

 private:
  static constexpr std::size_t kMostRequests = 8;

  struct Known {
    alloc::Request request;
    std::uint64_t last_version = 0;  // of all nodes, when it was last looked at
    // By NodeId.
    std::vector<std::uint64_t> versions;  // when it was scored; no node has 0
    std::vector<alloc::Score> scores;
    std::vector<std::uint32_t> ranks;
    std::uint32_t best = 0;
  };

  Known& known(const alloc::Request& request);
  // Whether anything has changed.
  bool refresh(const alloc::Ledger& ledger, alloc::Placer& placer, Known& known);

  std::deque<Known> known_;  // the one used last comes first
  std::vector<alloc::NodeId> stale_;
  std::vector<alloc::Score> fresh_;
  Ranks ranks_;
};

}  // namespace tessera::extender
