#include "topology/rings.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>

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

constexpr unsigned kStepsPerLevel = 4'000;

// Finds a ring through `set` by depth-first search. Tries the neighbour with the fewest
// continuations first, and gives up when the budget is used up.
class RingFinder {
 public:
  RingFinder(const Neighbours& neighbours, GpuMask set, StepBudget& budget)
      : neighbours_(neighbours), start_(lowest_gpu(set)), set_(set), budget_(budget) {}

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
    if (!budget_.take(1)) {
      return false;
    }
    GpuMask untried = neighbours_[at] & rest;
    while (untried != 0 && budget_.left() > 0) {
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
  StepBudget& budget_;
  std::vector<unsigned> path_;
};

// Improves a ring: reverses parts of it as long as that increases the total bandwidth and keeps
// every link at `floor` or above. The first ring that RingFinder finds is rarely the fastest with
// the same slowest link.
void speed_up(std::vector<unsigned>& ring, std::span<const Mbps> mbps, unsigned gpus, Mbps floor) {
  const std::size_t size = ring.size();
  const auto link = [&](std::size_t a, std::size_t b) { return mbps[ring[a] * gpus + ring[b % size]]; };
  constexpr int kMostPasses = 64;  // of a forged topology; a real one needs a few
  bool better = true;
  for (int pass = 0; better && pass < kMostPasses; ++pass) {
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
  constexpr std::size_t kMostGpus = 16;
  if (gpus > kMostGpus || levels.size() > 254) {
    std::abort();
  }
  const std::size_t sets = std::size_t{1} << gpus;
  std::vector<std::uint8_t> best(sets, 0);
  if (levels.size() < 2) {
    return best;  // all links are equal
  }
  // One number per GPU: a level plus one, so that 0 can mean "none".
  using Row = std::array<std::uint8_t, kMostGpus>;
  std::array<Row, kMostGpus> links{};
  for (unsigned a = 0; a < gpus; ++a) {
    for (unsigned b = 0; b < gpus; ++b) {
      if (a != b) {
        const auto level = std::ranges::lower_bound(levels, mbps[a * gpus + b]) - levels.begin();
        links[a][b] = static_cast<std::uint8_t>(level + 1);
      }
    }
  }
  // paths[s][e] is the best bottleneck of a path that starts at the lowest GPU of s, visits all of s
  // and ends at e. Any cycle through s can be cut at its lowest GPU, so this finds all cycles.
  std::vector<Row> paths(sets, Row{});
  for (unsigned gpu = 0; gpu < gpus; ++gpu) {
    paths[std::size_t{1} << gpu][gpu] = std::numeric_limits<std::uint8_t>::max();
  }
  for (std::uint32_t set = 1; set < sets; ++set) {
    const Row& ends = paths[set];
    Row next{};  // by GPU: the best bottleneck after one more link
    for (const unsigned end : GpuIndices(set)) {
      for (std::size_t gpu = 0; gpu < kMostGpus; ++gpu) {
        const std::uint8_t through = ends[end] < links[end][gpu] ? ends[end] : links[end][gpu];
        next[gpu] = next[gpu] < through ? through : next[gpu];
      }
    }
    // The link back to the start closes the ring. For two GPUs, it is the same link again.
    const unsigned start = lowest_gpu(set);
    best[set] = gpu_count(set) < 2 ? 0 : static_cast<std::uint8_t>(next[start] - 1);
    for (const unsigned gpu : GpuIndices(first_gpus(gpus) & ~first_gpus(start) & ~GpuMask{set})) {
      paths[set | (1U << gpu)][gpu] = next[gpu];
    }
  }
  return best;
}

namespace {

// Returns the fastest level that a ring through `set` can have: a ring uses two links of each GPU.
std::size_t highest_level(std::span<const Mbps> mbps, unsigned gpus, std::span<const Mbps> levels,
                          GpuMask set) {
  Mbps least = levels.back();
  for (const unsigned a : GpuIndices(set)) {
    Mbps best = 0;
    Mbps second = 0;
    for (const unsigned b : GpuIndices(set & ~gpu_bit(a))) {
      const Mbps link = mbps[a * gpus + b];
      second = std::max(second, std::min(best, link));
      best = std::max(best, link);
    }
    least = std::min(least, gpu_count(set) == 2 ? best : second);
  }
  return static_cast<std::size_t>(std::ranges::lower_bound(levels, least) - levels.begin());
}

}  // namespace

Mbps bounded_ring(std::span<const Mbps> mbps, unsigned gpus, std::span<const Mbps> levels, GpuMask set,
                  StepBudget& budget) {
  const unsigned size = gpu_count(set);
  if (size < 2) {
    return 0;
  }
  if (levels.size() > 1 && budget.take(size)) {
    for (std::size_t level = highest_level(mbps, gpus, levels, set); level > 0 && budget.take(size);
         --level) {
      const Neighbours neighbours = neighbours_at(mbps, gpus, set, levels[level]);
      StepBudget steps(std::min(kStepsPerLevel, budget.left()));
      const bool found = RingFinder(neighbours, set, steps).find();
      budget.take(std::min(kStepsPerLevel, budget.left()) - steps.left());
      if (found) {
        return levels[level];
      }
    }
  }
  return levels.front();  // every pair has at least the lowest level
}

std::vector<unsigned> find_ring(std::span<const Mbps> mbps, unsigned gpus, GpuMask set, Mbps floor) {
  if (gpu_count(set) < 2) {
    return {};
  }
  const Neighbours neighbours = neighbours_at(mbps, gpus, set, floor);
  StepBudget budget(kStepsPerLevel);
  RingFinder finder(neighbours, set, budget);
  if (!finder.find()) {
    return {};
  }
  std::vector<unsigned> ring = finder.path();
  speed_up(ring, mbps, gpus, floor);
  return ring;
}

}  // namespace tessera::topology
