// topology/left_for_others.h
//
// What the GPUs that stay free are worth to the requests that come later.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topology/bandwidth.h"

namespace tessera::topology {

// For each of the 2^n sets of free GPUs a worth in 0 .. 65535; more is better. Comparable among sets of the
// same topology.
std::vector<std::uint16_t> left_for_others(unsigned gpus, std::span<const std::uint8_t> ring_level,
                                           std::span<const Mbps> levels);

}  // namespace tessera::topology
