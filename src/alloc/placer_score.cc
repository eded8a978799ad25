// How good each node is for a pod.
#include <algorithm>
#include <limits>

#include "alloc/node_score.h"
#include "alloc/placer.h"
#include "alloc/query.h"

namespace tessera::alloc {

Score Placer::score_of(const Query& query, const NodeView& view, const Pick& pick) const {
  return node_score(query, view, pick, ledger_->options().unit, ledger_->node_order(view.id));
}

Score Placer::work_out(const Query& query, NodeId node, Pick& pick_here) {
  const NodeStates& states = ledger_->states();
  const bool hopeless = (query.plain_share && states.largest_free(node) < query.request->shape.share.units) ||
                        (query.plain_whole && states.whole_free(node) < query.request->shape.whole);
  if (hopeless) {
    return kDoesNotFit;
  }
  const NodeView view = states.view(node);
  return pick(query, view, pick_here) ? score_of(query, view, pick_here) : kDoesNotFit;
}

void Placer::score(const Request& request, std::span<const NodeId> nodes, std::span<Score> scores) {
  const Query query = prepare(request);
  Pick found;
  if (request.has_several_parts()) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      scores[i] = work_out(query, nodes[i], found);
    }
    return;
  }
  const NodeStates& states = ledger_->states();
  const std::span<ScoreMemory::Known> column = memory_.column(query);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    ScoreMemory::Known& known = column[raw(nodes[i])];
    const std::uint64_t version = states.version(nodes[i]);
    if (known.version != version) {
      known = {.version = version, .score = work_out(query, nodes[i], found)};
    }
    scores[i] = known.score;
  }
}

void scale_scores(std::span<const Score> scores, std::span<std::int64_t> scaled, std::int64_t most) {
  Score best = kDoesNotFit;
  Score worst = std::numeric_limits<Score>::max();
  for (const Score score : scores) {
    best = std::max(best, score);
    worst = score == kDoesNotFit ? worst : std::min(worst, score);
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] == kDoesNotFit) {
      scaled[i] = 0;
    } else if (scores[i] == best) {
      scaled[i] = most;
    } else {
      // A share of 0 .. most-1 by position between worst and best.
      const __int128 part = static_cast<__int128>(scores[i] - worst) * most / (best - worst);
      scaled[i] = std::min<std::int64_t>(static_cast<std::int64_t>(part), most - 1);
    }
  }
}

}  // namespace tessera::alloc
