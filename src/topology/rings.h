// topology/rings.h
//
// Best rings: the bottleneck of the best Hamiltonian cycle through a set of GPUs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/bandwidth.h"
#include "topology/gpu_mask.h"

namespace tessera::topology {

// The distinct values of an n x n bandwidth matrix off its diagonal, ascending.
std::vector<Mbps> bandwidth_levels(std::span<const Mbps> mbps, unsigned gpus);

// For each of the 2^n sets of GPUs the index into `levels` of its best ring; 0 for sets of fewer than two
// GPUs. Exact, in O(levels * 2^n * n) steps, n <= 16.
std::vector<std::uint8_t> best_ring_levels(std::span<const Mbps> mbps, unsigned gpus,
                                           std::span<const Mbps> levels);

// The best ring through one set that a search of at most some thousand steps a level finds: a lower bound,
// and exact where links are uniform or the set is small. For machines too large for a table.
Mbps bounded_ring(std::span<const Mbps> mbps, unsigned gpus, std::span<const Mbps> levels, GpuMask set);

// The GPUs of a set in the order of a ring whose slowest link carries at least `floor`, beginning with the
// lowest; empty when the bounded search finds none. Beyond the slowest link its links are fast ones, though
// not always the fastest.
std::vector<unsigned> find_ring(std::span<const Mbps> mbps, unsigned gpus, GpuMask set, Mbps floor);

}  // namespace tessera::topology
