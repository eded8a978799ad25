// extender/rank_cache.h
//
// The rank of every node for a request, cached for the last few requests. Pods often arrive in
// groups with equal requests, and few nodes change between two of them. alloc::Placer computes and
// caches the score of each node. The ranks are computed again only when a score has changed. Not
// thread-safe.
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

class RankCache {
 public:
  struct NodeRanks {
    // By NodeId: 0 where the pod does not fit, 1 for the worst node where it fits, higher for
    // better nodes. Nodes with equal scores have equal ranks.
    std::span<const std::uint32_t> ranks;
    std::uint32_t best = 0;  // the highest rank
  };
  // Ranks all nodes of the ledger. Valid until the next call.
  NodeRanks ranks_of(const alloc::Ledger& ledger, alloc::Placer& placer, const alloc::Request& request);

  // Removes all cached ranks. Call it when the placer has been replaced.
  void clear() { entries_.clear(); }

 private:
  static constexpr std::size_t kMostRequests = 8;

  struct Entry {
    alloc::Request request;
    std::uint64_t last_version = 0;  // NodeStates::last_version() when the scores were read
    // By NodeId.
    std::vector<alloc::Score> scores;
    std::vector<std::uint32_t> ranks;
    std::uint32_t best = 0;
  };

  // Moves the entry of the request to the front, or adds one.
  Entry& entry_of(const alloc::Request& request);
  // Reads the scores again if a node may have changed. Returns whether the ranks are out of date.
  bool refresh(const alloc::Ledger& ledger, alloc::Placer& placer, Entry& entry);

  std::deque<Entry> entries_;  // most recently used first
  std::vector<alloc::NodeId> nodes_;
  std::vector<alloc::Score> scores_;
  Ranks ranks_;
};

}  // namespace tessera::extender
