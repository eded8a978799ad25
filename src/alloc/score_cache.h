// alloc/score_cache.h
//
// Caches scores. Most requests repeat an earlier shape, and most nodes have not changed since. An
// entry is valid until its node changes.
//
//   ScoreCache::Entry& entry = cache.column(query)[raw(node)];
//   if (entry.version != states.version(node)) { ... compute the score, and set the version ... }
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "alloc/choice.h"
#include "alloc/ledger.h"
#include "alloc/query.h"

namespace tessera::alloc {

class ScoreCache {
 public:
  struct Entry {
    std::uint64_t version = 0;  // of the node when it was scored; versions start at 1
    Score score = kDoesNotFit;
  };

  // The ledger must outlive this object.
  explicit ScoreCache(const Ledger& ledger) : ledger_(&ledger) {}

  // Returns one entry per node, by NodeId, for all requests with the same shape, constraints and
  // policies as `query`. When the cache is full, drops the least recently used columns. The span is
  // valid until the next call.
  std::span<Entry> column(const Query& query);

  // Drops all scores of this policy.
  void forget(Policy share_policy);

  // All columns together have at most this many bytes. A request is looked up by comparing it with
  // every column, so their number is limited as well.
  static constexpr std::size_t kMostBytes = 8U << 20U;
  static constexpr std::size_t kMostColumns = 256;
  [[nodiscard]] std::size_t columns() const { return columns_.size(); }
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Column {
    Shape shape;
    std::vector<Part> parts;
    std::vector<Part> init_parts;
    Policy share_policy{};
    Policy whole_policy{};
    OriginalPlugins original;
    std::vector<std::string> models;
    std::vector<std::string> uuids;
    std::vector<std::string> uuids_excluded;
    std::size_t list_bytes = 0;  // of the three lists above
    std::vector<Entry> by_node;
  };

  const Ledger* ledger_;
  std::list<Column> columns_;  // most recently used first
};

}  // namespace tessera::alloc
