// topology/left_for_others.h
//
// What the GPUs that stay free are worth to the requests that come later.
//
// A request of any size is as likely as of any other, it will get some set of its size, and GPUs that are
// busy now may be free by then. So every set of two or more GPUs counts with its ring bandwidth, as a part of
// the best ring of its size; sets of one size share one unit; and each GPU of a set that is not free now
// divides what the set counts by four. On the DGX-1V stream of tests/topology/dgx1_stream_test.cc this beats
// both the bandwidth left among free GPUs and the best ring left of each size, and comes within half a
// percent of looking ahead with full knowledge of which jobs run together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/bandwidth.h"

namespace tessera::topology {

// For each of the 2^n sets of free GPUs its worth, 0 .. 65535 (all free); more is better. Exact sums, rounded
// once at the end, so that sets alike by the machine's symmetry are worth exactly the same.
std::vector<std::uint16_t> left_for_others(unsigned gpus, std::span<const std::uint8_t> ring_level,
                                           std::span<const Mbps> levels);

}  // namespace tessera::topology
