// extender/score_memory.h
//
// Scores that need not be worked out again. Pods come in sets of equal ones, and between two of them a node
// or two have changed: only these are asked about anew. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "alloc/ledger.h"
#include "alloc/placer.h"
#include "alloc/request.h"

namespace tessera::extender {

class ScoreMemory {
 public:
  // Fills `scores`, one for each of `nodes`, with what `placer` says of them.
  void score(const alloc::Ledger& ledger, alloc::Placer& placer, const alloc::Request& request,
             std::span<const alloc::NodeId> nodes, std::span<alloc::Score> scores);

  // The placer is another one.
  void forget() { known_.clear(); }

 private:
  static constexpr std::size_t kMostRequests = 8;

  struct Entry {
    std::uint64_t version = 0;  // of the node when it was scored; no node has 0
    alloc::Score score = alloc::kDoesNotFit;
  };
  struct Known {
    alloc::Request request;
    std::vector<Entry> by_node;
  };

  Known& known(const alloc::Request& request);

  std::deque<Known> known_;  // the one used last comes first
  std::vector<alloc::NodeId> stale_;
  std::vector<std::size_t> stale_places_;
  std::vector<alloc::Score> fresh_;
};

}  // namespace tessera::extender
