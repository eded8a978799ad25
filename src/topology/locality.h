// topology/locality.h
//
// Ranks sets of equal bandwidth by their NUMA nodes, by their NICs, and by how much they fragment
// the free GPUs.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/topology.h"

namespace tessera::topology {

class Locality {
 public:
  explicit Locality(const Topology& topology);

  // Returns the rank of a set; more is better. Sets on fewer NUMA nodes rank first, then sets with
  // more GPUs that have a NIC below the same PCIe switches. Jobs on several GPUs often also use
  // other nodes and need the NICs. A job on a single GPU rarely needs a NIC, so among single GPUs
  // those without a NIC rank first.
  [[nodiscard]] std::uint8_t of_set(GpuMask set) const;

  // Returns the sum of the squared sizes of all aligned blocks that are entirely in `free`. Blocks
  // are those of buddy allocation: 2, 4, 8, ... GPUs of one NUMA node, whole NUMA nodes and the
  // whole machine. The GPUs of a NUMA node are ordered by NIC, then by index, because this order
  // follows the PCIe switches.
  [[nodiscard]] std::uint16_t whole_blocks(GpuMask free) const;

 private:
  std::vector<GpuMask> numa_nodes_;
  std::vector<GpuMask> blocks_;
  GpuMask near_a_nic_ = 0;
};

}  // namespace tessera::topology
