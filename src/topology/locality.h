// topology/locality.h
//
// What stays to be said about a set when its bandwidth is settled: NUMA nodes, NICs, and how it is cut out
// of the free GPUs.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/topology.h"

namespace tessera::topology {

class Locality {
 public:
  explicit Locality(const Topology& topology);

  // Fewer NUMA nodes first, then more GPUs with a NIC below their own PCIe switches, which several GPUs will
  // use to talk to other nodes; a single GPU does not, and gets more without. More is better.
  [[nodiscard]] std::uint8_t of_set(GpuMask set) const;

  // Blocks of 2, 4, 8, ... GPUs of one NUMA node, whole NUMA nodes and the whole machine, as far as they are
  // entirely in `free`, each counted with its size squared: what buddy allocation keeps whole. GPUs of a NUMA
  // node are blocked in the order of their NICs and indices, since these follow the PCIe switches.
  [[nodiscard]] std::uint16_t whole_blocks(GpuMask free) const;

 private:
  std::vector<GpuMask> numa_nodes_;
  std::vector<GpuMask> blocks_;
  GpuMask near_a_nic_ = 0;
};

}  // namespace tessera::topology
