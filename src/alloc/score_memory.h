// alloc/score_memory.h
//
// Scores that were worked out before. Most requests have shapes seen before and most nodes have not changed
// since, so a score is kept by shape and node until the node changes.
//
//   ScoreMemory::Known& known = memory.column(query)[raw(node)];
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

class ScoreMemory {
 public:
  struct Known {
    std::uint64_t version = 0;  // of the node then; versions start at 1
    Score score = kDoesNotFit;
  };

  // Refers to the ledger, which must live longer.
  explicit ScoreMemory(const Ledger& ledger) : ledger_(&ledger) {}

  // What is known of requests like this one, by NodeId: made or found, and kept while it is among the last
  // used. Only for requests that have not several parts. Valid until the next call of anything here.
  std::span<Known> column(const Query& query);

  // All that this policy made of anything: it thinks otherwise now.
  void forget(Policy share_policy);

 private:
  static constexpr std::size_t kMostBytes = 8U << 20U;  // of all columns together

  struct Column {
    Shape shape;
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
