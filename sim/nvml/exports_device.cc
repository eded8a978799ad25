// Functions for the properties and the state of one GPU.
#include <fmt/core.h>

#include "base/strings.h"
#include "exports.h"

using tessera::nvml_sim::on_gpu;
using tessera::nvml_sim::put;
using tessera::nvml_sim::put_text;
using tessera::nvml_sim::SimDriver;
using tessera::nvml_sim::SimGpu;
using tessera::nvml_sim::SimProcess;
namespace abi = tessera::gpu::abi;

namespace {

constexpr unsigned kMibShift = 20;
constexpr int kAmpere = 8;

int compute_part(const SimGpu& gpu, bool major) {
  const std::string_view text = gpu.described->compute;
  const auto dot = text.find('.');
  const std::string_view part = major                           ? text.substr(0, dot)
                                : dot == std::string_view::npos ? ""
                                                                : text.substr(dot + 1);
  return static_cast<int>(tessera::parse_int(part).value_or(0));
}

abi::Return fill_pci(std::string_view function, abi::Device device, abi::PciInfo* info) {
  return on_gpu(function, device, [&](const SimGpu& gpu) {
    return put(info, tessera::nvml_sim::pci_info(gpu.described->pci_bus_id));
  });
}

// Writes the processes into `infos`. Callers first pass an array that is too small to learn the
// count, then a large enough one.
template <class Info>
abi::Return list_processes(std::string_view function, abi::Device device, unsigned* count, Info* infos,
                           bool mps) {
  return on_gpu(function, device, [&](const SimGpu& gpu) -> abi::Return {
    if (count == nullptr) {
      return abi::kInvalidArgument;
    }
    std::vector<Info> listed;
    for (const SimProcess& process : gpu.control.processes) {
      if (process.mps == mps) {
        Info info{};
        info.pid = process.pid;
        info.used_memory = process.memory_mib << kMibShift;
        if constexpr (sizeof(Info) == sizeof(abi::ProcessInfo)) {
          info.gpu_instance = abi::kNoInstance;
          info.compute_instance = abi::kNoInstance;
        }
        listed.push_back(info);
      }
    }
    const unsigned room = std::exchange(*count, static_cast<unsigned>(listed.size()));
    if (room < listed.size() || (!listed.empty() && infos == nullptr)) {
      return abi::kInsufficientSize;
    }
    std::ranges::copy(listed, infos);
    return abi::kSuccess;
  });
}

// Reports an empty list: the simulated driver has no processes of this kind.
abi::Return no_processes(std::string_view function, abi::Device device, unsigned* count) {
  return on_gpu(function, device, [&](const SimGpu&) { return put(count, 0); });
}

}  // namespace

abi::PciInfo tessera::nvml_sim::pci_info(const std::string& bus_id) {
  abi::PciInfo info{};
  // load_machine() has checked the format.
  info.domain = static_cast<std::uint32_t>(std::stoul(bus_id.substr(0, 8), nullptr, 16));
  info.bus = static_cast<std::uint32_t>(std::stoul(bus_id.substr(9, 2), nullptr, 16));
  info.device = static_cast<std::uint32_t>(std::stoul(bus_id.substr(12, 2), nullptr, 16));
  constexpr std::uint32_t kNvidia = 0x10DE;
  info.device_id = kNvidia;
  put_text(fmt::format("{:08X}:{:02X}:{:02X}.0", info.domain, info.bus, info.device), info.bus_id.data(),
           static_cast<unsigned>(info.bus_id.size()));
  put_text(fmt::format("{:04X}:{:02X}:{:02X}.0", info.domain & 0xFFFFU, info.bus, info.device),
           info.bus_id_legacy.data(), static_cast<unsigned>(info.bus_id_legacy.size()));
  return info;
}

TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetUUID(abi::Device device, char* uuid, unsigned bytes) {
  return on_gpu("nvmlDeviceGetUUID", device,
                [&](const SimGpu& gpu) { return put_text(gpu.uuid, uuid, bytes); });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetName(abi::Device device, char* name, unsigned bytes) {
  return on_gpu("nvmlDeviceGetName", device,
                [&](const SimGpu& gpu) { return put_text(gpu.described->model, name, bytes); });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetMinorNumber(abi::Device device, unsigned* minor) {
  return on_gpu("nvmlDeviceGetMinorNumber", device,
                [&](const SimGpu& gpu) { return put(minor, gpu.described->minor); });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetIndex(abi::Device device, unsigned* index) {
  return on_gpu("nvmlDeviceGetIndex", device, [&](const SimGpu& gpu) { return put(index, gpu.index); });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetCudaComputeCapability(abi::Device device, int* major,
                                                                   int* minor) {
  return on_gpu("nvmlDeviceGetCudaComputeCapability", device, [&](const SimGpu& gpu) -> abi::Return {
    const abi::Return code = put(major, compute_part(gpu, true));
    return code == abi::kSuccess ? put(minor, compute_part(gpu, false)) : code;
  });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetPciInfo_v3(abi::Device device, abi::PciInfo* info) {
  return fill_pci("nvmlDeviceGetPciInfo_v3", device, info);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetPciInfo_v2(abi::Device device, abi::PciInfo* info) {
  return fill_pci("nvmlDeviceGetPciInfo_v2", device, info);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetPciInfo(abi::Device device, abi::PciInfo* info) {
  return fill_pci("nvmlDeviceGetPciInfo", device, info);
}

TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetMemoryInfo(abi::Device device, abi::Memory* memory) {
  return on_gpu("nvmlDeviceGetMemoryInfo", device, [&](const SimGpu& gpu) {
    const std::uint64_t total = std::uint64_t{gpu.described->memory_mib} << kMibShift;
    const std::uint64_t used = gpu.used_bytes() + (std::uint64_t{gpu.described->reserved_mib} << kMibShift);
    return put(memory, abi::Memory{.total = total, .free = total - used, .used = used});
  });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetMemoryInfo_v2(abi::Device device, abi::MemoryV2* memory) {
  return on_gpu("nvmlDeviceGetMemoryInfo_v2", device, [&](const SimGpu& gpu) -> abi::Return {
    if (memory == nullptr) {
      return abi::kInvalidArgument;
    }
    if (memory->version != abi::kMemoryV2) {
      return abi::kArgumentVersionMismatch;
    }
    const std::uint64_t total = std::uint64_t{gpu.described->memory_mib} << kMibShift;
    const std::uint64_t reserved = std::uint64_t{gpu.described->reserved_mib} << kMibShift;
    const std::uint64_t used = gpu.used_bytes();
    return put(memory, abi::MemoryV2{.version = abi::kMemoryV2,
                                     .total = total,
                                     .reserved = reserved,
                                     .free = total - reserved - used,
                                     .used = used});
  });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetUtilizationRates(abi::Device device, abi::Utilization* rates) {
  return on_gpu("nvmlDeviceGetUtilizationRates", device, [&](const SimGpu& gpu) -> abi::Return {
    return gpu.control.mig ? abi::Return{abi::kNotSupported}
                           : put(rates, abi::Utilization{.gpu = gpu.control.busy_percent, .memory = 0});
  });
}

TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetComputeRunningProcesses_v3(abi::Device device, unsigned* count,
                                                                        abi::ProcessInfo* infos) {
  return list_processes("nvmlDeviceGetComputeRunningProcesses_v3", device, count, infos, false);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetComputeRunningProcesses_v2(abi::Device device, unsigned* count,
                                                                        abi::ProcessInfo* infos) {
  return list_processes("nvmlDeviceGetComputeRunningProcesses_v2", device, count, infos, false);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetComputeRunningProcesses(abi::Device device, unsigned* count,
                                                                     abi::ProcessInfoV1* infos) {
  return list_processes("nvmlDeviceGetComputeRunningProcesses", device, count, infos, false);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetMPSComputeRunningProcesses_v3(abi::Device device,
                                                                           unsigned* count,
                                                                           abi::ProcessInfo* infos) {
  return list_processes("nvmlDeviceGetMPSComputeRunningProcesses_v3", device, count, infos, true);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetProcessUtilization(abi::Device device,
                                                                abi::ProcessUtilization* samples,
                                                                unsigned* count, unsigned long long since) {
  return on_gpu("nvmlDeviceGetProcessUtilization", device, [&](const SimGpu& gpu) -> abi::Return {
    if (count == nullptr) {
      return abi::kInvalidArgument;
    }
    std::vector<abi::ProcessUtilization> listed;
    for (const SimProcess& process : gpu.control.processes) {
      if (process.busy_percent > 0) {
        abi::ProcessUtilization sample{};
        sample.pid = process.pid;
        sample.timestamp = since + 1;
        sample.sm = process.busy_percent;
        listed.push_back(sample);
      }
    }
    if (listed.empty()) {
      return abi::kNotFound;
    }
    const unsigned room = std::exchange(*count, static_cast<unsigned>(listed.size()));
    if (room < listed.size() || samples == nullptr) {
      return abi::kInsufficientSize;
    }
    std::ranges::copy(listed, samples);
    return abi::kSuccess;
  });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetGraphicsRunningProcesses_v3(abi::Device device, unsigned* count,
                                                                         abi::ProcessInfo* /*infos*/) {
  return no_processes("nvmlDeviceGetGraphicsRunningProcesses_v3", device, count);
}

TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetMigMode(abi::Device device, unsigned* current,
                                                     unsigned* pending) {
  return on_gpu("nvmlDeviceGetMigMode", device, [&](const SimGpu& gpu) -> abi::Return {
    if (!gpu.control.mig && compute_part(gpu, true) < kAmpere) {
      return abi::kNotSupported;
    }
    const abi::Return code = put(current, gpu.control.mig ? 1 : 0);
    return code == abi::kSuccess ? put(pending, gpu.control.mig ? 1 : 0) : code;
  });
}

TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetTotalEccErrors(abi::Device device, int type, int /*counter*/,
                                                            unsigned long long* count) {
  return on_gpu("nvmlDeviceGetTotalEccErrors", device, [&](const SimGpu& gpu) {
    return put(count, type == abi::kEccUncorrected ? gpu.control.ecc : 0);
  });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetRemappedRows(abi::Device device, unsigned* corrected,
                                                          unsigned* uncorrected, unsigned* pending,
                                                          unsigned* failed) {
  return on_gpu("nvmlDeviceGetRemappedRows", device, [&](const SimGpu& gpu) -> abi::Return {
    if (compute_part(gpu, true) < kAmpere) {
      return abi::kNotSupported;
    }
    for (unsigned* zero : {corrected, uncorrected, pending}) {
      put(zero, 0);
    }
    return put(failed, gpu.control.remap_failed ? 1 : 0);
  });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetFieldValues(abi::Device device, int count,
                                                         abi::FieldValue* values) {
  return on_gpu("nvmlDeviceGetFieldValues", device, [&](const SimGpu& gpu) -> abi::Return {
    if (values == nullptr || count < 1) {
      return abi::kInvalidArgument;
    }
    for (int i = 0; i < count; ++i) {
      abi::FieldValue& value = values[i];
      value.value_type = abi::kValueUnsignedInt;
      value.result = abi::kSuccess;
      if (value.field == abi::kFieldRecoveryAction) {
        value.value = gpu.control.recovery_action;
      } else if (value.field == abi::kFieldNvlinkCount) {
        value.value = gpu.links->size();
      } else {
        value.result = abi::kNotSupported;
      }
    }
    return abi::kSuccess;
  });
}
