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

void Placer::score_by_fgd(const Query& query, std::span<const NodeId> nodes, std::span<Score> scores) {
  const NodeStates& states = ledger_->states();
  FgdPlaces::Column& column = fgd_.column(*query.request, query.whole_policy);
  Pick found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    FgdPlaces::Known& known = column.by_node[raw(nodes[i])];
    if (known.version != states.version(nodes[i])) {
      const NodeView view = states.view(nodes[i]);
      known.score = pick(query, view, found) ? score_of(query, view, found) : kDoesNotFit;
      known.version = view.version;
    }
    scores[i] = known.score;
  }
}

void Placer::score(const Request& request, std::span<const NodeId> nodes, std::span<Score> scores) {
  const Query query = prepare(request);
  if (query.share_policy == Policy::kFgd && !request.has_several_parts()) {
    score_by_fgd(query, nodes, scores);
    return;
  }
  const NodeStates& states = ledger_->states();
  const std::uint32_t units = request.shape.share.units;
  const unsigned whole = request.shape.whole;
  Pick found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool hopeless = (query.plain_share && states.largest_free(nodes[i]) < units) ||
                          (query.plain_whole && states.whole_free(nodes[i]) < whole);
    if (hopeless) {
      scores[i] = kDoesNotFit;
      continue;
    }
    const NodeView view = states.view(nodes[i]);
    scores[i] = pick(query, view, found) ? score_of(query, view, found) : kDoesNotFit;
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
