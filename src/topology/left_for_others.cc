#include "topology/left_for_others.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace tessera::topology {

namespace {

// Large enough that the 12,870 sets of 8 out of 16 GPUs still have values in the hundreds.
constexpr std::uint64_t kUnit = std::uint64_t{1} << 24U;
// Each busy GPU divides the value by four; two extra bits per GPU make all divisions exact.
constexpr unsigned kBitsPerGpu = 2;

// Returns the value of each set if all of its GPUs are free.
std::vector<std::uint64_t> values_of_sets(unsigned gpus, std::span<const std::uint8_t> ring_level,
                                          std::span<const Mbps> levels) {
  std::vector<std::uint64_t> ideal(gpus + 1, 0);
  std::vector<std::uint64_t> sets_of_size(gpus + 1, 0);
  for (std::uint32_t set = 0; set < ring_level.size(); ++set) {
    const auto size = static_cast<unsigned>(std::popcount(set));
    ++sets_of_size[size];
    if (size >= 2) {
      ideal[size] = std::max<std::uint64_t>(ideal[size], levels[ring_level[set]]);
    }
  }
  std::vector<std::uint64_t> counts(ring_level.size(), 0);
  for (std::uint32_t set = 0; set < ring_level.size(); ++set) {
    const auto size = static_cast<unsigned>(std::popcount(set));
    if (size >= 2) {
      counts[set] = kUnit * levels[ring_level[set]] / ideal[size] / sets_of_size[size];
    }
  }
  return counts;
}

}  // namespace

std::vector<std::uint16_t> left_for_others(unsigned gpus, std::span<const std::uint8_t> ring_level,
                                           std::span<const Mbps> levels) {
  if (gpus > 16) {  // 15 sizes * 2^24 * 4^16 < 2^64
    std::abort();
  }
  std::vector<std::uint64_t> sums = values_of_sets(gpus, ring_level, levels);
  for (std::uint64_t& sum : sums) {
    sum <<= kBitsPerGpu * gpus;
  }
  // Sum over all sets, one GPU at a time. A set that contains the GPU counts fully if the GPU is
  // free, and a quarter if it is busy.
  for (unsigned gpu = 0; gpu < gpus; ++gpu) {
    for (std::uint32_t set = 0; set < sums.size(); ++set) {
      const std::uint32_t with = set | (1U << gpu);
      if (with != set) {
        const std::uint64_t without_it = sums[set];
        const std::uint64_t with_it = sums[with];
        sums[set] = without_it + (with_it >> kBitsPerGpu);
        sums[with] = without_it + with_it;
      }
    }
  }
  std::vector<std::uint16_t> worth(sums.size(), 0);
  const std::uint64_t most = sums.back() >> (kBitsPerGpu * gpus);
  for (std::size_t set = 0; most > 0 && set < sums.size(); ++set) {
    worth[set] = static_cast<std::uint16_t>((sums[set] >> (kBitsPerGpu * gpus)) * 0xffff / most);
  }
  return worth;
}

}  // namespace tessera::topology
