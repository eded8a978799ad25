// alloc/node_score.h
//
// The score of a choice on one node. It can be compared with the scores of choices on other nodes.
//
// A score is a list of criteria packed into one integer. The most important criterion is in the
// highest bits, and each has a fixed number of bits. So comparing two scores compares criterion by
// criterion. kube-scheduler picks randomly between nodes with equal scores, so the last criteria
// make scores differ: they prefer the fuller node, or with `spread` the emptier one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "alloc/query.h"
#include "alloc/units.h"

namespace tessera::alloc {

class Criteria {
 public:
  // Adds the next criterion: smaller is better. A value that does not fit `bits` counts as the
  // largest one.
  Criteria& least(std::uint64_t value, unsigned bits) {
    const std::uint64_t most = (std::uint64_t{1} << bits) - 1;
    packed_ = packed_ << bits | std::min(value, most);
    used_ += bits;
    return *this;
  }
  // Adds the next criterion: larger is better.
  Criteria& most(std::uint64_t value, unsigned bits) {
    const std::uint64_t limit = (std::uint64_t{1} << bits) - 1;
    return least(limit - std::min(value, limit), bits);
  }

  // Returns the score; larger is better. Bits without a criterion count as the best value.
  [[nodiscard]] Score score() const { return static_cast<Score>(kAll - (packed_ << (kBits - used_))); }

 private:
  static constexpr unsigned kBits = 62;
  static constexpr std::uint64_t kAll = (std::uint64_t{1} << kBits) - 1;

  std::uint64_t packed_ = 0;
  unsigned used_ = 0;
};

// Returns the score of `choice` on the node of `view`. `order` (Ledger::node_order) decides between
// nodes that are equally good to `fgd`.
Score node_score(const Query& query, const NodeView& view, const GpuChoice& choice, Unit unit,
                 std::uint32_t order);

}  // namespace tessera::alloc
