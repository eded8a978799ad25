#include "topology/rings.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

namespace tessera::topology {

namespace {

using Neighbours = std::array<GpuMask, kMaxGpus>;

// Returns, for each GPU of `set`, the GPUs of `set` that it reaches with at least `floor`.
Neighbours neighbours_at(std::span<const Mbps> mbps, unsigned gpus, GpuMask set, Mbps floor) {
  Neighbours neighbours{};
  for (const unsigned a : GpuIndices(set)) {
    for (const unsigned b : GpuIndices(set)) {
      if (a != b && mbps[a * gpus + b] >= floor) {
        neighbours[a] |= gpu_bit(b);
      }
    }
  }
  return neighbours;
}

// Finds a ring through `set` by depth-first search. Tries the neighbour with the fewest
// continuations first, and gives up after a fixed number of steps.
class RingFinder {
 public:
  RingFinder(const Neighbours& neighbours, GpuMask set)
      : neighbours_(neighbours), start_(lowest_gpu(set)), set_(set) {}

  bool find() { return visit(start_, set_ & ~gpu_bit(start_)); }

  // After find(): the GPUs in ring order, starting with the lowest.
  [[nodiscard]] const std::vector<unsigned>& path() const { return path_; }

 private:
  bool visit(unsigned at, GpuMask rest) {
    path_.push_back(at);
    if (continue_from(at, rest)) {
      return true;
    }
    path_.pop_back();
    return false;
  }

  bool continue_from(unsigned at, GpuMask rest) {
    if (rest == 0) {
      return (neighbours_[at] & gpu_bit(start_)) != 0;
    }
    if (steps_ == 0) {
      return false;
    }
    --steps_;
    GpuMask untried = neighbours_[at] & rest;
    while (untried != 0) {
      const unsigned next = fewest_continuations(untried, rest);
      untried &= ~gpu_bit(next);
      if (visit(next, rest & ~gpu_bit(next))) {
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] unsigned fewest_continuations(GpuMask candidates, GpuMask rest) const {
    unsigned best = lowest_gpu(candidates);
    unsigned fewest = kMaxGpus + 1;
    for (const unsigned gpu : GpuIndices(candidates)) {
      const unsigned ways = gpu_count(neighbours_[gpu] & rest);
      if (ways < fewest) {
        fewest = ways;
        best = gpu;
      }
    }
    return best;
  }

  const Neighbours& neighbours_;
  unsigned start_;
  GpuMask set_;
  unsigned steps_ = 4'000;
  std::vector<unsigned> path_;
};

// Improves a ring: reverses parts of it as long as that increases the total bandwidth and keeps
// every link at `floor` or above. The first ring that RingFinder finds is rarely the fastest with
// the same slowest link.
void speed_up(std::vector<unsigned>& ring, std::span<const Mbps> mbps, unsigned gpus, Mbps floor) {
  const std::size_t size = ring.size();
  const auto link = [&](std::size_t a, std::size_t b) { return mbps[ring[a] * gpus + ring[b % size]]; };
  bool better = true;
  while (better) {
    better = false;
    for (std::size_t first = 1; first + 1 < size; ++first) {
      for (std::size_t last = first + 1; last < size; ++last) {
        const Mbps before = link(first - 1, last);
        const Mbps after = link(first, last + 1);
        if (before >= floor && after >= floor &&
            before + after > link(first - 1, first) + link(last, last + 1)) {
          std::reverse(ring.begin() + static_cast<std::ptrdiff_t>(first),
                       ring.begin() + static_cast<std::ptrdiff_t>(last) + 1);
          better = true;
        }
      }
    }
  }
}

}  // namespace

std::vector<Mbps> bandwidth_levels(std::span<const Mbps> mbps, unsigned gpus) {
  std::vector<Mbps> levels;
  for (unsigned a = 1; a < gpus; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      levels.push_back(mbps[a * gpus + b]);
    }
  }
  std::ranges::sort(levels);
  const auto repeated = std::ranges::unique(levels);
  levels.erase(repeated.begin(), repeated.end());
  return levels;
}

std::vector<std::uint8_t> best_ring_levels(std::span<const Mbps> mbps, unsigned gpus,
                                           std::span<const Mbps> levels) {
  if (gpus > 16 || levels.size() > 255) {
    std::abort();
  }
  const std::size_t sets = std::size_t{1} << gpus;
  std::vector<std::uint8_t> best(sets, 0);
  // ends[s] is the set of GPUs where a path can end that starts at the lowest GPU of s, visits all
  // of s and uses only links of at least the current level. Any cycle through s can be cut at its
  // lowest GPU, so this finds all cycles.
  std::vector<std::uint16_t> ends(sets, 0);
  for (std::size_t level = 1; level < levels.size(); ++level) {
    const Neighbours neighbours = neighbours_at(mbps, gpus, first_gpus(gpus), levels[level]);
    for (std::uint32_t set = 1; set < sets; ++set) {
      const std::uint32_t start = set & (~set + 1);
      std::uint32_t reached = set == start ? start : 0;
      for (std::uint32_t rest = set ^ start; rest != 0; rest &= rest - 1) {
        const std::uint32_t end = rest & (~rest + 1);
        if ((ends[set ^ end] & neighbours[static_cast<unsigned>(std::countr_zero(end))]) != 0) {
          reached |= end;
        }
      }
      ends[set] = static_cast<std::uint16_t>(reached);
      // For two GPUs, the link in both directions counts as a ring.
      if (set != start && (reached & neighbours[static_cast<unsigned>(std::countr_zero(start))]) != 0) {
        best[set] = static_cast<std::uint8_t>(level);
      }
    }
  }
  return best;
}

Mbps bounded_ring(std::span<const Mbps> mbps, unsigned gpus, std::span<const Mbps> levels, GpuMask set) {
  if (gpu_count(set) < 2) {
    return 0;
  }
  for (std::size_t level = levels.size(); level-- > 1;) {
    const Neighbours neighbours = neighbours_at(mbps, gpus, set, levels[level]);
    if (RingFinder(neighbours, set).find()) {
      return levels[level];
    }
  }
  return levels.front();  // every pair has at least the lowest level
}

std::vector<unsigned> find_ring(std::span<const Mbps> mbps, unsigned gpus, GpuMask set, Mbps floor) {
  if (gpu_count(set) < 2) {
    return {};
  }
  const Neighbours neighbours = neighbours_at(mbps, gpus, set, floor);
  RingFinder finder(neighbours, set);
  if (!finder.find()) {
    return {};
  }
  std::vector<unsigned> ring = finder.path();
  speed_up(ring, mbps, gpus, floor);
  return ring;
}

}  // namespace tessera::topology
