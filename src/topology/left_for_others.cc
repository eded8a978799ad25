#include "topology/left_for_others.h"

#include <algorithm>
#include <bit>

namespace tessera::topology {

std::vector<std::uint16_t> left_for_others(unsigned gpus, std::span<const std::uint8_t> ring_level,
                                           std::span<const Mbps> levels) {
  const std::size_t sets = std::size_t{1} << gpus;
  std::vector<std::uint16_t> worth(sets, 0);
  std::vector<std::uint8_t> best(sets, 0);  // level + 1 of the best set of the size in hand, 0 for none
  for (unsigned count = 2; count <= gpus; ++count) {
    for (std::uint32_t set = 0; set < sets; ++set) {
      const auto size = static_cast<unsigned>(std::popcount(set));
      std::uint8_t found = 0;
      if (size == count) {
        found = static_cast<std::uint8_t>(ring_level[set] + 1);
      }
      for (std::uint32_t rest = size > count ? set : 0; rest != 0; rest &= rest - 1) {
        found = std::max(found, best[set ^ (rest & (~rest + 1))]);
      }
      best[set] = found;
    }
    const std::uint64_t ideal = levels[best[sets - 1] - 1U];
    for (std::uint32_t set = 0; set < sets; ++set) {
      if (best[set] > 0) {
        worth[set] = static_cast<std::uint16_t>(worth[set] + 1000ULL * levels[best[set] - 1U] / ideal);
      }
    }
  }
  return worth;
}

}  // namespace tessera::topology
