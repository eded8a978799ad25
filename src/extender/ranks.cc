#include "extender/ranks.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace tessera::extender {

std::span<const std::uint32_t> Ranks::of(std::span<const std::int64_t> scores) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(16, scores.size() * 2));
  const int shift = 64 - std::countr_zero(size);
  table_.assign(size, 0);
  values_.clear();
  ranks_.resize(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    // Adjacent scores are often equal.
    if (i > 0 && scores[i] == scores[i - 1]) {
      ranks_[i] = ranks_[i - 1];
      continue;
    }
    std::size_t slot = static_cast<std::uint64_t>(scores[i]) * 0x9E3779B97F4A7C15U >> shift;
    while (table_[slot] != 0 && values_[table_[slot] - 1] != scores[i]) {
      slot = (slot + 1) & (size - 1);
    }
    if (table_[slot] == 0) {
      values_.push_back(scores[i]);
      table_[slot] = static_cast<std::uint32_t>(values_.size());
    }
    ranks_[i] = table_[slot] - 1;
  }
  order_.resize(values_.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::ranges::sort(order_, {}, [this](std::uint32_t value) { return values_[value]; });
  rank_of_value_.resize(values_.size());
  for (std::uint32_t rank = 0; rank < order_.size(); ++rank) {
    rank_of_value_[order_[rank]] = rank;
  }
  for (std::uint32_t& rank : ranks_) {
    rank = rank_of_value_[rank];
  }
  return ranks_;
}

}  // namespace tessera::extender
