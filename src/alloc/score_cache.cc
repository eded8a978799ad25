#include "alloc/score_cache.h"

#include <algorithm>

namespace tessera::alloc {

std::span<ScoreCache::Entry> ScoreCache::column(const Query& query) {
  const Request& request = *query.request;
  const auto found = std::ranges::find_if(columns_, [&](const Column& column) {
    return column.shape == request.shape && column.parts == query.parts &&
           column.init_parts == query.init_parts && column.share_policy == query.share_policy &&
           column.whole_policy == query.whole_policy && column.original == query.original &&
           column.models == request.models && column.uuids == request.uuids &&
           column.uuids_excluded == request.uuids_excluded;
  });
  const std::size_t nodes = ledger_->states().size();
  if (found != columns_.end()) {
    columns_.splice(columns_.begin(), columns_, found);
  } else {
    const std::size_t more = request.list_bytes() + nodes * sizeof(Entry);
    while (!columns_.empty() && (columns_.size() >= kMostColumns || bytes() + more > kMostBytes)) {
      columns_.pop_back();
    }
    columns_.push_front({.shape = request.shape,
                         .parts = query.parts,
                         .init_parts = query.init_parts,
                         .share_policy = query.share_policy,
                         .whole_policy = query.whole_policy,
                         .original = query.original,
                         .models = request.models,
                         .uuids = request.uuids,
                         .uuids_excluded = request.uuids_excluded,
                         .list_bytes = request.list_bytes(),
                         .by_node = {}});
  }
  columns_.front().by_node.resize(nodes);
  return columns_.front().by_node;
}

std::size_t ScoreCache::bytes() const {
  std::size_t sum = 0;
  for (const Column& column : columns_) {
    sum += column.list_bytes + column.by_node.size() * sizeof(Entry);
  }
  return sum;
}

void ScoreCache::forget(Policy share_policy) {
  std::erase_if(columns_, [&](const Column& column) { return column.share_policy == share_policy; });
}

}  // namespace tessera::alloc
