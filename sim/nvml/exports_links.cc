// Functions for links, NUMA nodes and CPUs of GPUs.
#include <climits>

#include "exports.h"
#include "machine_sysfs.h"

using tessera::nvml_sim::on_gpu;
using tessera::nvml_sim::pci_info;
using tessera::nvml_sim::put;
using tessera::nvml_sim::SimDriver;
using tessera::nvml_sim::SimGpu;
using tessera::topology::PciePath;
namespace abi = tessera::gpu::abi;

namespace {

int level_of(PciePath path) {
  switch (path) {
    case PciePath::kPsb:
      return abi::kTopologyInternal;
    case PciePath::kPix:
      return abi::kTopologySingle;
    case PciePath::kPxb:
      return abi::kTopologyMultiple;
    case PciePath::kPhb:
      return abi::kTopologyHostBridge;
    case PciePath::kNode:
      return abi::kTopologyNode;
    case PciePath::kSys:
    case PciePath::kUnknown:
      break;
  }
  return abi::kTopologySystem;
}

bool link_up(const SimGpu& gpu, unsigned link) {
  return !gpu.control.nvlinks_down.contains(link);
}

// Returns answer(gpu) if the GPU has this link, whether it is up or down.
template <class Answer>
abi::Return on_link(std::string_view function, abi::Device device, unsigned link, Answer answer) {
  return on_gpu(function, device, [&](const SimGpu& gpu) -> abi::Return {
    if (gpu.links->empty()) {
      return abi::kNotSupported;
    }
    return link < gpu.links->size() ? answer(gpu) : abi::Return{abi::kInvalidArgument};
  });
}

// Returns the remote end of a link. For a switch on newer machines this is a placeholder, as in the
// real driver.
abi::Return remote_pci(std::string_view function, abi::Device device, unsigned link, abi::PciInfo* info) {
  return on_link(function, device, link, [&](const SimGpu& gpu) -> abi::Return {
    if (!link_up(gpu, link)) {
      return abi::kNotSupported;
    }
    const auto peer = (*gpu.links)[link].peer;
    if (peer) {
      return put(info, pci_info(SimDriver::instance().machine().gpus[*peer].pci_bus_id));
    }
    return put(info, pci_info(tessera::nvml_sim::switch_bus_id(gpu.nvlink_generation, link)));
  });
}

}  // namespace

TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetTopologyCommonAncestor(abi::Device a, abi::Device b,
                                                                    int* level) {
  return on_gpu("nvmlDeviceGetTopologyCommonAncestor", a, [&](const SimGpu& first) -> abi::Return {
    const auto second = SimDriver::instance().gpu(b);
    if (!second || second->position == first.position) {
      return abi::kInvalidArgument;
    }
    if (second->control.lost) {
      return abi::kGpuIsLost;
    }
    const auto machine = SimDriver::instance().machine();
    return put(level, level_of(machine.topology.link(first.position, second->position).path));
  });
}

TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetNvLinkState(abi::Device device, unsigned link,
                                                         unsigned* active) {
  return on_link("nvmlDeviceGetNvLinkState", device, link,
                 [&](const SimGpu& gpu) { return put(active, link_up(gpu, link) ? 1 : 0); });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetNvLinkRemotePciInfo_v2(abi::Device device, unsigned link,
                                                                    abi::PciInfo* info) {
  return remote_pci("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link, info);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetNvLinkRemotePciInfo(abi::Device device, unsigned link,
                                                                 abi::PciInfo* info) {
  return remote_pci("nvmlDeviceGetNvLinkRemotePciInfo", device, link, info);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetNvLinkRemoteDeviceType(abi::Device device, unsigned link,
                                                                    int* type) {
  return on_link("nvmlDeviceGetNvLinkRemoteDeviceType", device, link, [&](const SimGpu& gpu) {
    return put(type, (*gpu.links)[link].peer ? abi::kRemoteGpu : abi::kRemoteSwitch);
  });
}

TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetGpuFabricInfoV(abi::Device device, abi::FabricInfoV2* info) {
  return on_gpu("nvmlDeviceGetGpuFabricInfoV", device, [&](const SimGpu& gpu) -> abi::Return {
    if (info == nullptr) {
      return abi::kInvalidArgument;
    }
    if (info->version != abi::kFabricInfoV2) {
      return abi::kArgumentVersionMismatch;
    }
    if (!gpu.fabric) {
      return abi::kNotSupported;
    }
    *info = {};
    info->version = abi::kFabricInfoV2;
    info->state = gpu.control.fabric;
    return abi::kSuccess;
  });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetGpuFabricInfo(abi::Device device, abi::FabricInfo* info) {
  return on_gpu("nvmlDeviceGetGpuFabricInfo", device, [&](const SimGpu& gpu) -> abi::Return {
    abi::FabricInfo fabric{};
    fabric.state = gpu.control.fabric;
    return gpu.fabric ? put(info, fabric) : abi::Return{abi::kNotSupported};
  });
}

TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetNumaNodeId(abi::Device device, unsigned* node) {
  return on_gpu("nvmlDeviceGetNumaNodeId", device, [&](const SimGpu& gpu) -> abi::Return {
    const auto memory_numa = SimDriver::instance().machine().topology.place(gpu.position).memory_numa;
    return memory_numa < 0 ? abi::Return{abi::kNotSupported} : put(node, memory_numa);
  });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetCpuAffinity(abi::Device device, unsigned words,
                                                         unsigned long* mask) {
  return on_gpu("nvmlDeviceGetCpuAffinity", device, [&](const SimGpu& gpu) -> abi::Return {
    if (mask == nullptr || words == 0) {
      return abi::kInvalidArgument;
    }
    constexpr unsigned kBits = sizeof(unsigned long) * CHAR_BIT;
    std::fill_n(mask, words, 0UL);
    const auto machine = SimDriver::instance().machine();
    for (const auto& range : machine.topology.place(gpu.position).cpus.ranges()) {
      for (std::uint32_t cpu = range.first; cpu <= range.last && cpu / kBits < words; ++cpu) {
        mask[cpu / kBits] |= 1UL << (cpu % kBits);
      }
    }
    return abi::kSuccess;
  });
}
