// topology/left_for_others.h
//
// Estimates how useful the remaining free GPUs are for later requests.
//
// The estimate assumes that all request sizes are equally likely, and that a later request gets
// each set of its size with the same probability. Every set of two or more GPUs has a value: its
// ring bandwidth, relative to the best ring of its size, divided by the number of sets of that
// size. A GPU that is busy now may be free by then, so each busy GPU of a set only divides the
// value of the set by four. The estimate is the sum of the values of all sets.
//
// In the DGX-1V job stream of tests/topology/dgx1_stream_test.cc this estimate beats two simpler
// ones (total bandwidth between free GPUs, best remaining ring of each size). It is within 0.5
// percent of a search that knows in advance which jobs run together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/bandwidth.h"

namespace tessera::topology {

// Returns the estimate for every possible set of free GPUs, indexed by the bit mask of the set
// (2^gpus entries). `ring_level` is the result of best_ring_levels(), `levels` that of
// bandwidth_levels() (rings.h). An estimate is a number from 0 to 65535 (all GPUs free); more is
// better. Sums are exact and rounded once at the end, so that symmetric sets have exactly the same
// estimate.
std::vector<std::uint16_t> left_for_others(unsigned gpus, std::span<const std::uint8_t> ring_level,
                                           std::span<const Mbps> levels);

}  // namespace tessera::topology
