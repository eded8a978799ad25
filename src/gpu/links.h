// gpu/links.h
//
// How the GPUs of this machine are connected: NVLinks and PCIe paths from the driver, places and network
// cards from sysfs.
#pragma once

#include <string>
#include <vector>

#include "gpu/nvml.h"
#include "gpu/sysfs.h"
#include "topology/topology.h"

namespace tessera::gpu {

// A GPU as far as links are concerned.
struct LinkedGpu {
  abi::Device handle = nullptr;  // null: the driver does not answer for it
  PciAddress pci;
  PciPlace place;
  unsigned nvlink_generation = 0;  // 0: has none
};

// The generation of NVLink that belongs to a compute capability: 6 Pascal -> 1 .. 10 Blackwell -> 5. (What
// the driver calls the version of a link is not counted in generations.)
unsigned nvlink_generation(int compute_major);

// What one GPU's links lead to.
struct NvlinkEnds {
  std::vector<std::uint8_t> to_gpu;  // active links to each of `gpus`
  unsigned to_switch = 0;            // active links that end in NVSwitches
  unsigned down = 0;                 // links that the driver lists but that are not active
};

NvlinkEnds read_nvlinks(Nvml& nvml, const Sysfs& sysfs, const std::vector<LinkedGpu>& gpus, std::size_t gpu);

// In the order of `gpus`. What cannot be learned stays unknown.
topology::Topology read_topology(Nvml& nvml, const Sysfs& sysfs, const std::vector<LinkedGpu>& gpus);

}  // namespace tessera::gpu
