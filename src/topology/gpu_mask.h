// topology/gpu_mask.h
//
// A set of GPUs of one node: bit i is the GPU with index i.
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

// No node has more: NVML hands out indices up to here on every machine known.
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

// The lowest index of a set that is not empty.
constexpr unsigned lowest_gpu(GpuMask mask) {
  return static_cast<unsigned>(std::countr_zero(mask));
}

// True when `a`, written as ascending indices, comes before `b` in a dictionary: {0,7} before {1,2}.
constexpr bool comes_first(GpuMask a, GpuMask b) {
  const GpuMask differ = a ^ b;
  return differ != 0 && (a & differ & (~differ + 1)) != 0;
}

// The indices of a set, ascending, for range-for.
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

// "0,2-3"; "" for the empty set.
std::string gpu_list(GpuMask mask);

// The reverse; also "0, 2, 3". Fails on text that is no list and on an index of kMaxGpus or more.
Result<GpuMask> parse_gpu_list(std::string_view text);

}  // namespace tessera::topology
