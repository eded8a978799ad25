// alloc/node_score.h
//
// How good a place on a node is, as one number that compares with those of other nodes.
//
// A score is a list of criteria packed into one integer, the most important first and each with a fixed
// number of bits, so that comparing two scores compares criterion after criterion. The last ones say how full
// the node is: among places that are otherwise equal the fuller node is better, which keeps a random choice
// between equal scores from costing anything (kube-scheduler makes one).
#pragma once

#include <algorithm>
#include <cstdint>

#include "alloc/query.h"
#include "alloc/units.h"

namespace tessera::alloc {

class Criteria {
 public:
  // The next criterion: smaller is better, and what does not fit `bits` counts as the largest that does.
  Criteria& least(std::uint64_t value, unsigned bits) {
    const std::uint64_t most = (std::uint64_t{1} << bits) - 1;
    packed_ = packed_ << bits | std::min(value, most);
    used_ += bits;
    return *this;
  }
  // Larger is better.
  Criteria& most(std::uint64_t value, unsigned bits) {
    const std::uint64_t limit = (std::uint64_t{1} << bits) - 1;
    return least(limit - std::min(value, limit), bits);
  }

  // Larger is better; criteria that were not given count as met.
  [[nodiscard]] Score score() const { return static_cast<Score>(kAll - (packed_ << (kBits - used_))); }

 private:
  static constexpr unsigned kBits = 62;
  static constexpr std::uint64_t kAll = (std::uint64_t{1} << kBits) - 1;

  std::uint64_t packed_ = 0;
  unsigned used_ = 0;
};

// `order` is the node's place in an order of its own, which decides where `fgd` sees no difference.
Score node_score(const Query& query, const NodeView& view, const GpuChoice& choice, Unit unit, std::uint32_t order);

}  // namespace tessera::alloc
