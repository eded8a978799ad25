// topology/bandwidth.h
//
// Estimated bandwidth between GPUs, in MB/s per direction. The estimates are the bandwidths that
// collectives achieve, which are below those of the data sheets.
//
// NVLink, per link, by generation (NCCL's measured constants, src/graph/topo.h):
//   1 (Pascal) -> 18,000   2 (Volta) -> 20,000   3 (Ampere) -> 20,000   4 (Hopper) -> 20,600
//   5 (Blackwell) -> 40,100
// PCIe x16, by generation:
//   3 -> 12,000   4 -> 24,000   5 -> 48,000   6 -> 96,000
// The PCIe bandwidth is multiplied by a factor for the path between the two GPUs:
//   PSB, PIX -> 1
//   PXB -> 11/12 (the uplink is shared)
//   PHB -> 5/6 (the host bridge costs a sixth)
//   NODE -> 4/5
//   SYS -> 4/5, but the result is at most the bandwidth between the sockets
//
// If the topology does not specify the PCIe generation, it is guessed from the newest NVLink
// generation of the node:
//   NVLink 1 or 2 -> PCIe 3
//   NVLink 3, or no NVLink -> PCIe 4
//   NVLink 4 or later -> PCIe 5
// If the topology does not specify the bandwidth between the sockets, it is guessed from the PCIe
// generation:
//   3 -> 6,000 (QPI)   4 -> 16,000 (EPYC)   5 -> 22,000 (Sapphire Rapids)   6 -> 40,000
#pragma once

#include <cstdint>

#include "topology/topology.h"

namespace tessera::topology {

using Mbps = std::uint32_t;  // megabytes per second

// Returns the PCIe generation (3 .. 6), as specified or guessed.
unsigned pcie_generation(const Topology& topology);
// Returns the bandwidth between two sockets, as specified or guessed.
Mbps socket_mbps(const Topology& topology);

// Returns the bandwidth of one NVLink. Unknown later generations count as the latest known one.
Mbps nvlink_mbps(unsigned generation);

// Returns the bandwidth of all NVLinks of a pair or, without NVLinks, of its PCIe path. An unknown
// path counts as SYS.
Mbps pair_mbps(const Topology& topology, unsigned a, unsigned b);

// Returns NVIDIA's score of a pair (go-gpuallocator), the sum of two parts. Each NVLink scores 100;
// at most 18 NVLinks count. The PCIe path scores 10 (SYS) .. 60 (PSB), or 0 if it is unknown.
std::int32_t pair_score(const Link& link);

// Returns the sum of pair_score() over all pairs of a set.
std::int32_t pair_sum(const Topology& topology, GpuMask set);

}  // namespace tessera::topology
