// topology/gpu_mask.h
//
// A set of GPUs of one node: bit i is the GPU at position i of the node's topology. src/alloc calls
// this position a slot. The position differs from the NVML index if a GPU is missing.
//
//   for (unsigned gpu : GpuIndices(mask)) { ... }      // ascending
//   gpu_list(0b1101)                                   // "0,2-3"
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::topology {

using GpuMask = std::uint64_t;

// The largest number of GPUs per node. No known machine has more.
inline constexpr unsigned kMaxGpus = 64;

constexpr GpuMask gpu_bit(unsigned gpu) {
  return GpuMask{1} << gpu;
}

// The GPUs 0 .. count-1.
constexpr GpuMask first_gpus(unsigned count) {
  return count >= kMaxGpus ? ~GpuMask{0} : gpu_bit(count) - 1;
}

constexpr unsigned gpu_count(GpuMask mask) {
  return static_cast<unsigned>(std::popcount(mask));
}

// The lowest index of a non-empty set.
constexpr unsigned lowest_gpu(GpuMask mask) {
  return static_cast<unsigned>(std::countr_zero(mask));
}

// Returns whether `a` comes before `b` when the ascending index lists of the two sets are compared
// lexicographically: {0,7} comes before {1,2}.
constexpr bool comes_first(GpuMask a, GpuMask b) {
  const GpuMask differ = a ^ b;
  return differ != 0 && (a & differ & (~differ + 1)) != 0;
}

// Iterates over the indices of a set in ascending order.
class GpuIndices {
 public:
  class Iterator {
   public:
    constexpr explicit Iterator(GpuMask rest) : rest_(rest) {}
    constexpr unsigned operator*() const { return lowest_gpu(rest_); }
    constexpr Iterator& operator++() {
      rest_ &= rest_ - 1;
      return *this;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    GpuMask rest_;
  };

  constexpr explicit GpuIndices(GpuMask mask) : mask_(mask) {}
  [[nodiscard]] constexpr Iterator begin() const { return Iterator(mask_); }
  [[nodiscard]] constexpr Iterator end() const { return Iterator(0); }

 private:
  GpuMask mask_;
};

// Formats a set as "0,2-3"; the empty set is "".
std::string gpu_list(GpuMask mask);

// Parses the output of gpu_list(), also with spaces ("0, 2, 3"). Returns kInvalid for other text
// and for an index of kMaxGpus or more.
Result<GpuMask> parse_gpu_list(std::string_view text);

}  // namespace tessera::topology
