// topology/rings.h
//
// Ring search. A ring is a Hamiltonian cycle through a set of GPUs. Its bottleneck is its slowest
// link. The best ring of a set is the one with the fastest bottleneck.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "topology/bandwidth.h"
#include "topology/gpu_mask.h"

namespace tessera::topology {

// Returns the distinct off-diagonal values of an n x n bandwidth matrix, ascending.
std::vector<Mbps> bandwidth_levels(std::span<const Mbps> mbps, unsigned gpus);

// Returns, for each of the 2^n sets of GPUs, the bottleneck of its best ring as an index into
// `levels`. `levels` is the result of bandwidth_levels(). The index is 0 for sets of fewer than two
// GPUs. The result is exact. Takes O(2^n * n^2) steps, however many levels there are; n is at
// most 16.
std::vector<std::uint8_t> best_ring_levels(std::span<const Mbps> mbps, unsigned gpus,
                                           std::span<const Mbps> levels);

// The steps that a search may still take. A step looks at one GPU and its links, which takes well
// under a microsecond. A limit in steps, unlike a limit in time, gives the same result on every machine.
class StepBudget {
 public:
  explicit StepBudget(unsigned steps) : left_(steps) {}

  // Uses up to `steps`. Returns false if fewer were left.
  bool take(unsigned steps) {
    const bool enough = steps <= left_;
    left_ -= std::min(steps, left_);
    return enough;
  }
  [[nodiscard]] unsigned left() const { return left_; }

 private:
  unsigned left_;
};

// Returns the bottleneck of the best ring through one set that a search finds with a few thousand
// steps per level, and within `budget`. The result is a lower bound. It is exact if the links are
// uniform or the set is small. For machines that are too large for a table.
Mbps bounded_ring(std::span<const Mbps> mbps, unsigned gpus, std::span<const Mbps> levels, GpuMask set,
                  StepBudget& budget);

// Returns the GPUs of a set in the order of a ring whose slowest link has at least `floor`,
// starting with the lowest GPU. Returns an empty list if the bounded search finds none. The other
// links of the ring are fast, but not always the fastest possible.
std::vector<unsigned> find_ring(std::span<const Mbps> mbps, unsigned gpus, GpuMask set, Mbps floor);

}  // namespace tessera::topology
