// topology/left_for_others.h
//
// Estimates how useful the remaining free GPUs are for later requests.
//
// Assumptions: all request sizes are equally likely, a later request gets some set of its size, and
// GPUs that are busy now may be free by then. So every set of two or more GPUs has a value: its
// ring bandwidth, relative to the best ring of its size, divided by the number of sets of that
// size. Each GPU of the set that is busy now divides the value by four. The result is the sum over
// all sets.
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

// Returns the estimate for every possible set of free GPUs, indexed by the set's bit mask (2^gpus
// entries). An estimate is from 0 to 65535 (all GPUs free); more is better. Sums are exact and
// rounded once at the end, so that symmetric sets have exactly the same estimate.
std::vector<std::uint16_t> left_for_others(unsigned gpus, std::span<const std::uint8_t> ring_level,
                                           std::span<const Mbps> levels);

}  // namespace tessera::topology
