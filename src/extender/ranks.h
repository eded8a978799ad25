// extender/ranks.h
//
// Turns scores into ranks: the lowest distinct score has rank 0, the next one 1, and so on.
// Thousands of nodes have few distinct scores, so only the distinct ones are sorted. Reuses its
// memory. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::extender {

class Ranks {
 public:
  // Returns the rank of each score. Valid until the next call.
  std::span<const std::uint32_t> of(std::span<const std::int64_t> scores);
  // Number of distinct scores in the last call.
  [[nodiscard]] std::size_t distinct() const { return values_.size(); }

 private:
  std::vector<std::uint32_t> table_;  // by hash: index in values_ plus 1; 0: empty
  std::vector<std::int64_t> values_;  // distinct scores in the order of first appearance
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> rank_of_value_;
  std::vector<std::uint32_t> ranks_;
};

}  // namespace tessera::extender
