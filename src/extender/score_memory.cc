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
      one.by_node = std::move(known_.back().by_node);
      one.by_node.clear();
      known_.pop_back();
    }
  }
  known_.push_front(std::move(one));
  return known_.front();
}

void ScoreMemory::score(const alloc::Ledger& ledger, alloc::Placer& placer, const alloc::Request& request,
                        std::span<const alloc::NodeId> nodes, std::span<alloc::Score> scores) {
  // `fgd` looks at the whole cluster, and has a memory of its own.
  if (placer.share_policy(request) == alloc::Policy::kFgd) {
    placer.score(request, nodes, scores);
    return;
  }
  const alloc::NodeStates& states = ledger.states();
  std::vector<Entry>& by_node = known(request).by_node;
  by_node.resize(states.size());
  stale_.clear();
  stale_places_.clear();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Entry& entry = by_node[raw(nodes[i])];
    scores[i] = entry.score;
    if (entry.version != states.version(nodes[i])) {
      stale_.push_back(nodes[i]);
      stale_places_.push_back(i);
    }
  }
  fresh_.resize(stale_.size());
  placer.score(request, stale_, fresh_);
  for (std::size_t i = 0; i < stale_.size(); ++i) {
    scores[stale_places_[i]] = fresh_[i];
    by_node[raw(stale_[i])] = {.version = states.version(stale_[i]), .score = fresh_[i]};
  }
}

}  // namespace tessera::extender
