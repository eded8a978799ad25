// topology/bandwidth.h
//
// What a link carries, in MB/s and one direction: what a collective sees, not what a data sheet says.
//
// NVLink, per link and generation (NCCL's measured constants, src/graph/topo.h):
//   1 Pascal 18,000   2 Volta 20,000   3 Ampere 20,000   4 Hopper 20,600   5 Blackwell 40,100
// PCIe x16 per generation: 3 12,000   4 24,000   5 48,000   6 96,000, times
//   PSB, PIX 1   PXB 11/12 (the uplink is shared)   PHB 5/6 (the host bridge costs a sixth)   NODE 4/5
//   SYS: NODE, but no more than what gets across the sockets.
//
// Where a topology does not say its PCIe generation, the NVLink generation tells the age of the machine:
// 1-2 -> 3, 3 -> 4, 4 and later -> 5, no NVLink -> 4. Where it does not say what gets across sockets:
// PCIe 3 -> 6,000 (QPI), 4 -> 16,000 (EPYC), 5 -> 22,000 (Sapphire Rapids), 6 -> 40,000.
#pragma once

#include <cstdint>

#include "topology/topology.h"

namespace tessera::topology {

using Mbps = std::uint32_t;  // megabytes a second

// The PCIe generation told or guessed, 3 .. 6.
unsigned pcie_generation(const Topology& topology);
// What gets from one socket to the other, told or guessed.
Mbps socket_mbps(const Topology& topology);

// One NVLink of a generation; later ones than we know count as the last one known.
Mbps nvlink_mbps(unsigned generation);

// The NVLinks of a pair together or, without any, its PCIe path. An unknown path counts as SYS.
Mbps pair_mbps(const Topology& topology, unsigned a, unsigned b);

// NVIDIA's score of a pair (go-gpuallocator): 100 for each NVLink up to 18, and 10 (SYS) .. 60 (PSB) for the
// PCIe path on top, 0 for an unknown one.
std::int32_t pair_score(const Link& link);

// The sum over the pairs of a set.
std::int32_t pair_sum(const Topology& topology, GpuMask set);

}  // namespace tessera::topology
