#include "extender/rank_cache.h"

#include <algorithm>
#include <utility>

namespace tessera::extender {

RankCache::Entry& RankCache::entry_of(const alloc::Request& request) {
  const auto found = std::ranges::find(entries_, request, &Entry::request);
  if (found == entries_.begin() && found != entries_.end()) {
    return *found;
  }
  Entry entry;
  if (found != entries_.end()) {
    entry = std::move(*found);
    entries_.erase(found);
  } else {
    entry.request = request;
    if (entries_.size() == kMostRequests) {
      entries_.pop_back();
    }
  }
  entries_.push_front(std::move(entry));
  return entries_.front();
}

bool RankCache::refresh(const alloc::Ledger& ledger, alloc::Placer& placer, Entry& entry) {
  const alloc::NodeStates& states = ledger.states();
  // Scores of `fgd` also depend on the typical pods, which change without a new version.
  const bool is_fgd = placer.share_policy(entry.request) == alloc::Policy::kFgd;
  if (!is_fgd && entry.last_version == states.last_version() && entry.ranks.size() == states.size()) {
    return false;
  }
  entry.last_version = states.last_version();
  while (nodes_.size() < states.size()) {
    nodes_.push_back(alloc::NodeId{static_cast<std::uint32_t>(nodes_.size())});
  }
  nodes_.resize(states.size());
  scores_.resize(states.size());
  placer.score(entry.request, nodes_, scores_);
  if (scores_ == entry.scores && entry.ranks.size() == states.size()) {
    return false;
  }
  entry.scores.swap(scores_);
  return true;
}

RankCache::NodeRanks RankCache::ranks_of(const alloc::Ledger& ledger, alloc::Placer& placer,
                                         const alloc::Request& request) {
  Entry& entry = entry_of(request);
  if (refresh(ledger, placer, entry)) {
    // Add one score of kDoesNotFit, so that rank 0 means "does not fit" even if the pod fits on all
    // nodes.
    entry.scores.push_back(alloc::kDoesNotFit);
    const std::span<const std::uint32_t> ranks = ranks_.of(entry.scores);
    entry.scores.pop_back();
    entry.ranks.assign(ranks.begin(), ranks.end() - 1);
    entry.best = static_cast<std::uint32_t>(ranks_.distinct()) - 1;
  }
  return {.ranks = entry.ranks, .best = entry.best};
}

}  // namespace tessera::extender
