// gpu/links.h
//
// Reads the topology of this machine: NVLinks and PCIe paths from the driver, NUMA nodes, CPUs and
// network cards from sysfs.
#pragma once

#include <string>
#include <vector>

#include "gpu/nvml.h"
#include "gpu/sysfs.h"
#include "topology/topology.h"

namespace tessera::gpu {

// The facts about a GPU that determine its links.
struct LinkedGpu {
  abi::Device handle = nullptr;  // null: the GPU does not answer
  PciAddress pci;
  PciPlace place;
  unsigned nvlink_generation = 0;  // 0: no NVLinks
};

// Returns the NVLink generation of GPUs with this major compute capability:
//
//   capability   below 6       6 (Pascal)   7   8   9   10 (Blackwell) and later
//   generation   0: no NVLink  1            2   3   4   5
//
// The link version that the driver reports is a different number. Do not use it here.
unsigned nvlink_generation(int compute_major);

// The remote ends of the NVLinks of one GPU.
struct NvlinkEnds {
  std::vector<std::uint8_t> to_gpu;  // to_gpu[i]: active links to gpus[i] (argument of read_nvlinks())
  unsigned to_switch = 0;            // active links to NVSwitches
  unsigned down = 0;                 // inactive links
};

// Reads the NVLinks of gpus[gpu]. All numbers are 0 if that GPU does not answer.
NvlinkEnds read_nvlinks(Nvml& nvml, const Sysfs& sysfs, const std::vector<LinkedGpu>& gpus, std::size_t gpu);

// Returns the topology, with GPUs in the order of `gpus`. Facts that cannot be read stay unknown.
topology::Topology read_topology(Nvml& nvml, const Sysfs& sysfs, const std::vector<LinkedGpu>& gpus);

}  // namespace tessera::gpu
