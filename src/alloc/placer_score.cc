// Scores nodes.
#include <algorithm>
#include <limits>

#include "alloc/node_score.h"
#include "alloc/placer.h"
#include "alloc/query.h"

namespace tessera::alloc {

Score Placer::score_of(const Query& query, const NodeView& view, const GpuChoice& choice) const {
  return node_score(query, view, choice, ledger_->options().unit, ledger_->node_order(view.id));
}

Score Placer::compute_score(const Query& query, NodeId node, GpuChoice& choice) {
  const NodeStates& states = ledger_->states();
  const bool cannot_fit =
      (query.plain_share && states.largest_free(node) < query.request->shape.share.units) ||
      (query.plain_whole && states.whole_free(node) < query.request->shape.whole);
  if (cannot_fit) {
    return kDoesNotFit;
  }
  const NodeView view = states.view(node);
  return choose_gpus(query, view, choice) ? score_of(query, view, choice) : kDoesNotFit;
}

void Placer::score(const Request& request, std::span<const NodeId> nodes, std::span<Score> scores) {
  SearchBudget budget;
  const Query query = prepare(request, budget);
  GpuChoice found;
  const NodeStates& states = ledger_->states();
  const std::span<ScoreCache::Entry> column = cache_.column(query);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    ScoreCache::Entry& entry = column[raw(nodes[i])];
    const std::uint64_t version = states.version(nodes[i]);
    if (entry.version != version) {
      budget.begin();
      const Score score = compute_score(query, nodes[i], found);
      // A search that ended early may find more in the next call, which has a new budget.
      entry = {.version = budget.ended() ? 0 : version, .score = score};
    }
    scores[i] = entry.score;
  }
}

}  // namespace tessera::alloc
