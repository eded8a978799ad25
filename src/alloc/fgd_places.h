// alloc/fgd_places.h
//
// The policy `fgd` as the placer uses it: on the ledger's nodes, and with a memory. Working out a score takes
// microseconds a node; most requests have shapes seen before and most nodes have not changed since, so what
// was worked out is kept by shape and node until the node changes.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "alloc/fgd.h"
#include "alloc/ledger.h"
#include "alloc/query.h"
#include "alloc/typical.h"

namespace tessera::alloc {

class FgdPlaces {
 public:
  // Refers to the ledger, which must live longer.
  explicit FgdPlaces(const Ledger& ledger) : ledger_(&ledger) {}

  void set_typical(std::vector<TypicalRequest> typical);

  // Takes in nodes that have come, gone or become others. To be called before the questions below.
  void refresh();

  // The best GPUs of `may` for one part.
  [[nodiscard]] std::optional<Fgd::Place> place_share(const NodeView& view, GpuMask may,
                                                      const SharePart& share, std::int64_t cpu_milli) const;
  // How good it is to take these GPUs whole.
  [[nodiscard]] std::int32_t level_of_whole(const NodeView& view, GpuMask taken,
                                            std::int64_t cpu_milli) const;
  // How good a pick of several parts is.
  [[nodiscard]] std::int32_t level_of(const Query& query, const NodeView& view, const Pick& pick) const;

  // What is known of a shape on every node.
  struct Known {
    std::uint64_t version = 0;  // of the node then; versions start at 1
    Score score = kDoesNotFit;
  };
  struct Column {
    Shape shape;
    Policy whole_policy{};
    std::vector<std::string> models;
    std::vector<std::string> uuids;
    std::vector<std::string> uuids_excluded;
    std::vector<Known> by_node;  // by NodeId
  };
  // The column of a request that has not several parts, made or found, and kept while it is among the last
  // used ones. Valid until the next call of anything here.
  Column& column(const Request& request, Policy whole_policy);

 private:
  static constexpr std::size_t kMostBytes = 8U << 20U;  // of all columns together

  const Ledger* ledger_;
  std::vector<TypicalRequest> typical_;
  std::optional<Fgd> fgd_;
  std::uint64_t inventory_version_ = 0;
  std::list<Column> columns_;  // the last used one first
};

}  // namespace tessera::alloc
