// alloc/score_cache.h
//
// Scores that were worked out before. Most requests have shapes seen before and most nodes have not changed
// since, so a score is kept by shape and node until the node changes.
//
//   ScoreCache::Known& known = memory.column(query)[raw(node)];
//   if (known.version != states.version(node)) { ... work it out, and write down the version ... }
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
  struct Known {
    std::uint64_t version = 0;  // of the node then; versions start at 1
    Score score = kDoesNotFit;
  };

  // Refers to the ledger, which must live longer.
  explicit ScoreCache(const Ledger& ledger) : ledger_(&ledger) {}

  // Returns the entries of requests like this one, by NodeId. The least recently used columns are dropped when
  // the cache is full. Valid until the next call.
  std::span<Known> column(const Query& query);

  // All that this policy made of anything: it thinks otherwise now.
  void forget(Policy share_policy);

 private:
  static constexpr std::size_t kMostBytes = 8U << 20U;  // of all columns together

  struct Column {
    Shape shape;
    std::vector<Part> parts;
    std::vector<Part> init_parts;
    Policy share_policy{};
    Policy whole_policy{};
    bool beyond_old_plugin = false;
    std::vector<std::string> models;
    std::vector<std::string> uuids;
    std::vector<std::string> uuids_excluded;
    std::vector<Known> by_node;
  };

  const Ledger* ledger_;
  std::list<Column> columns_;  // the last used one first
};

}  // namespace tessera::alloc
