// topology/locality.h
//
// Ranks sets of equal bandwidth: by NUMA nodes, by NICs, and by how they fragment the free GPUs.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/topology.h"

namespace tessera::topology {

class Locality {
 public:
  explicit Locality(const Topology& topology);

  // Prefers fewer NUMA nodes, then more GPUs with a NIC below the same PCIe switches, because
  // several GPUs use it to reach other nodes. A single GPU does not need a NIC, so there a GPU
  // without a NIC is better. More is better.
  [[nodiscard]] std::uint8_t of_set(GpuMask set) const;

  // Counts the aligned blocks that are entirely in `free`, each with its size squared, as buddy
  // allocation would keep them. Blocks are 2, 4, 8, ... GPUs of one NUMA node, whole NUMA nodes and
  // the whole machine. The GPUs of a NUMA node are ordered by their NICs and indices, because these
  // follow the PCIe switches.
  [[nodiscard]] std::uint16_t whole_blocks(GpuMask free) const;

 private:
  std::vector<GpuMask> numa_nodes_;
  std::vector<GpuMask> blocks_;
  GpuMask near_a_nic_ = 0;
};

}  // namespace tessera::topology
