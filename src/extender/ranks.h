// extender/ranks.h
//
// From scores to ranks: the lowest distinct score is 0, the next 1, and so on. Thousands of nodes have few
// distinct scores, so only these are sorted. Memory is used again. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::extender {

class Ranks {
 public:
  // The rank of each of `scores`; valid until the next call.
  std::span<const std::uint32_t> of(std::span<const std::int64_t> scores);
  // How many distinct ones there were.
  [[nodiscard]] std::size_t distinct() const { return values_.size(); }

 private:
  std::vector<std::uint32_t> table_;  // by hash: one more than the place in values_, 0 for nothing
  std::vector<std::int64_t> values_;  // distinct, in the order of their first coming
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> rank_of_value_;
  std::vector<std::uint32_t> ranks_;
};

}  // namespace tessera::extender
