#include "extender/score_memory.h"

#include <algorithm>
#include <utility>

namespace tessera::extender {

ScoreMemory::Known& ScoreMemory::known(const alloc::Request& request) {
  const auto found = std::ranges::find(known_, request, &Known::request);
  if (found == known_.begin() && found != known_.end()) {
    return *found;
  }
  Known one;
  if (found != known_.end()) {
    one = std::move(*found);
    known_.erase(found);
  } else {
    one.request = request;
    if (known_.size() == kMostRequests) {
      known_.pop_back();
    }
  }
  known_.push_front(std::move(one));
  return known_.front();
}

bool ScoreMemory::refresh(const alloc::Ledger& ledger, alloc::Placer& placer, Known& known) {
  const alloc::NodeStates& states = ledger.states();
  // `fgd` looks at the whole cluster, and has a memory of its own.
  const bool ask_all = placer.share_policy(known.request) == alloc::Policy::kFgd;
  if (!ask_all && known.last_version == states.last_version() && known.ranks.size() == states.size()) {
    return false;
  }
  known.last_version = states.last_version();
  known.versions.resize(states.size());
  known.scores.resize(states.size(), alloc::kDoesNotFit);
  stale_.clear();
  bool changed = known.ranks.size() != states.size();
  for (std::uint32_t i = 0; i < states.size(); ++i) {
    const alloc::NodeId node{i};
    if (known.versions[i] == states.version(node) && !ask_all) {
      continue;
    }
    known.versions[i] = states.version(node);
    if (states.fence(node) != alloc::Fence::kAbsent) {
      stale_.push_back(node);
    } else if (known.scores[i] != alloc::kDoesNotFit) {
      known.scores[i] = alloc::kDoesNotFit;
      changed = true;
    }
  }
  fresh_.resize(stale_.size());
  placer.score(known.request, stale_, fresh_);
  for (std::size_t i = 0; i < stale_.size(); ++i) {
    alloc::Score& score = known.scores[raw(stale_[i])];
    changed = changed || score != fresh_[i];
    score = fresh_[i];
  }
  return changed;
}

ScoreMemory::Standing ScoreMemory::standing(const alloc::Ledger& ledger, alloc::Placer& placer,
                                            const alloc::Request& request) {
  Known& one = known(request);
  if (refresh(ledger, placer, one)) {
    // 0 is for nodes that are full, whether there are any or not.
    one.scores.push_back(alloc::kDoesNotFit);
    const std::span<const std::uint32_t> ranks = ranks_.of(one.scores);
    one.scores.pop_back();
    one.ranks.assign(ranks.begin(), ranks.end() - 1);
    one.best = static_cast<std::uint32_t>(ranks_.distinct()) - 1;
  }
  return {.ranks = one.ranks, .best = one.best};
}

}  // namespace tessera::extender
