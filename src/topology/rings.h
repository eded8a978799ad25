// topology/rings.h
//
// Ring search. A ring is a Hamiltonian cycle through a set of GPUs. Its bottleneck is its slowest
// link. The best ring of a set is the one with the fastest bottleneck.
#pragma once

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
// GPUs. The result is exact. Takes O(levels * 2^n * n) steps; n is at most 16.
std::vector<std::uint8_t> best_ring_levels(std::span<const Mbps> mbps, unsigned gpus,
                                           std::span<const Mbps> levels);

// Searches for the best ring through one set, with at most a few thousand steps per level. Returns
// the bottleneck of the best ring found, which is a lower bound. It is exact if the links are
// uniform or the set is small. Used for machines that are too large for a table of all sets.
Mbps bounded_ring(std::span<const Mbps> mbps, unsigned gpus, std::span<const Mbps> levels, GpuMask set);

// Returns the GPUs of a set in the order of a ring whose slowest link has at least `floor`,
// starting with the lowest GPU. Returns an empty list if the bounded search finds none. The other
// links of the ring are fast, but not always the fastest possible.
std::vector<unsigned> find_ring(std::span<const Mbps> mbps, unsigned gpus, GpuMask set, Mbps floor);

}  // namespace tessera::topology
