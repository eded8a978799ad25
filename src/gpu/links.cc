#include "gpu/links.h"

#include <algorithm>

namespace tessera::gpu {

namespace {

using topology::Link;
using topology::PciePath;

constexpr std::uint32_t kSwitchClass = 0x0680;  // PCI class of NVSwitches: bridge, subclass other

PciePath path_of_level(int level) {
  switch (level) {
    case abi::kTopologyInternal:
      return PciePath::kPsb;
    case abi::kTopologySingle:
      return PciePath::kPix;
    case abi::kTopologyMultiple:
      return PciePath::kPxb;
    case abi::kTopologyHostBridge:
      return PciePath::kPhb;
    case abi::kTopologyNode:
      return PciePath::kNode;
    case abi::kTopologySystem:
      return PciePath::kSys;
    default:
      return PciePath::kUnknown;
  }
}

PciePath pcie_path(Nvml& nvml, const LinkedGpu& a, const LinkedGpu& b) {
  if (a.handle != nullptr && b.handle != nullptr) {
    if (const auto level = nvml.common_ancestor(a.handle, b.handle)) {
      return path_of_level(*level);
    }
  }
  return a.place.route.empty() || b.place.route.empty() ? PciePath::kUnknown : path_between(a.place, b.place);
}

// Returns the type of the remote end of an active link. Drivers before 470 do not report it. Then
// the remote PCI address decides: `is_a_gpu` if it belongs to a GPU of this node, else a switch if
// the device there has the PCI class of NVSwitches.
LinkEnd end_of(const NvlinkInfo& link, const Sysfs& sysfs, bool is_a_gpu) {
  if (link.end) {
    return *link.end;
  }
  if (is_a_gpu) {
    return LinkEnd::kGpu;
  }
  const bool is_switch = link.remote && sysfs.pci(link.remote->sysfs_name()).pci_class >> 8U == kSwitchClass;
  return is_switch ? LinkEnd::kSwitch : LinkEnd::kOther;
}

std::uint8_t link_count(unsigned links) {
  return static_cast<std::uint8_t>(std::min(links, topology::kMaxNvlinks));
}

// Returns the NVLinks of a pair. If the two GPUs report different numbers of direct links, the
// smaller number counts, because a link is up only if both ends report it. Through switches, a pair
// has as many links as the GPU with fewer links to switches.
Link nvlinks_between(const std::vector<NvlinkEnds>& ends, const std::vector<LinkedGpu>& gpus, std::size_t a,
                     std::size_t b) {
  Link link;
  link.nvlinks = std::min(ends[a].to_gpu[b], ends[b].to_gpu[a]);
  if (link.nvlinks == 0) {
    link.nvlinks = link_count(std::min(ends[a].to_switch, ends[b].to_switch));
    link.nvswitch = link.nvlinks > 0;
  }
  if (link.nvlinks > 0) {
    const unsigned generation = std::min(gpus[a].nvlink_generation, gpus[b].nvlink_generation);
    link.generation = static_cast<std::uint8_t>(std::max(generation, 1U));
  }
  return link;
}

topology::Nic near_nic(const NicPlace& nic, const std::vector<LinkedGpu>& gpus) {
  topology::Nic result{.name = nic.name, .device = "", .paths = {}};
  for (const LinkedGpu& gpu : gpus) {
    result.paths.push_back(path_between(nic.place, gpu.place));
  }
  return result;
}

void place_gpu(Nvml& nvml, const LinkedGpu& gpu, topology::GpuPlace& place) {
  place.cpus = gpu.place.cpus;
  if (gpu.place.numa >= 0) {
    place.numa = topology::IndexList::of(static_cast<std::uint32_t>(gpu.place.numa));
  }
  if (gpu.handle != nullptr) {
    if (const auto node = nvml.memory_numa_node(gpu.handle); node && *node <= 1023) {
      place.memory_numa = static_cast<std::int32_t>(*node);
    }
  }
}

}  // namespace

unsigned nvlink_generation(int compute_major) {
  constexpr int kPascal = 6;
  constexpr int kBlackwell = 10;
  return compute_major < kPascal ? 0U
                                 : static_cast<unsigned>(std::min(compute_major, kBlackwell) - kPascal + 1);
}

NvlinkEnds read_nvlinks(Nvml& nvml, const Sysfs& sysfs, const std::vector<LinkedGpu>& gpus, std::size_t gpu) {
  NvlinkEnds ends;
  ends.to_gpu.resize(gpus.size());
  if (gpus[gpu].handle == nullptr) {
    return ends;
  }
  for (unsigned number = 0; number < abi::kMaxLinks; ++number) {
    const auto link = nvml.nvlink(gpus[gpu].handle, number);
    if (!link) {
      // A GPU may skip link numbers. But a library that does not know a number does not know any
      // higher number.
      if (link.error().code == abi::kInvalidArgument || link.error().code == abi::kFunctionNotFound) {
        break;
      }
      continue;
    }
    if (!link->active) {
      ++ends.down;
      continue;
    }
    const auto peer = std::ranges::find_if(
        gpus, [&](const LinkedGpu& other) { return link->remote && other.pci == *link->remote; });
    switch (end_of(*link, sysfs, peer != gpus.end())) {
      case LinkEnd::kGpu:
        if (peer != gpus.end()) {
          ++ends.to_gpu[static_cast<std::size_t>(peer - gpus.begin())];
        }
        break;
      case LinkEnd::kSwitch:
        ++ends.to_switch;
        break;
      case LinkEnd::kOther:
        break;
    }
  }
  return ends;
}

topology::Topology read_topology(Nvml& nvml, const Sysfs& sysfs, const std::vector<LinkedGpu>& gpus) {
  topology::Topology topology(static_cast<unsigned>(gpus.size()));
  std::vector<NvlinkEnds> ends;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    ends.push_back(read_nvlinks(nvml, sysfs, gpus, i));
    place_gpu(nvml, gpus[i], topology.place(static_cast<unsigned>(i)));
    topology.pcie_generation = std::max(topology.pcie_generation, gpus[i].place.pcie_generation);
  }
  for (std::size_t a = 1; a < gpus.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      Link link = nvlinks_between(ends, gpus, a, b);
      link.path = pcie_path(nvml, gpus[a], gpus[b]);
      topology.set_link(static_cast<unsigned>(a), static_cast<unsigned>(b), link);
    }
  }
  for (const NicPlace& nic : sysfs.nics()) {
    if (topology.nics.size() < topology::Topology::kMaxNics) {
      topology.nics.push_back(near_nic(nic, gpus));
    }
  }
  return topology;
}

}  // namespace tessera::gpu
