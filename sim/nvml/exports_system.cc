// Functions for sessions, versions and finding GPUs.
#include <fmt/core.h>

#include <cstdlib>

#include "base/strings.h"
#include "exports.h"

using tessera::nvml_sim::on_gpu;
using tessera::nvml_sim::on_system;
using tessera::nvml_sim::put;
using tessera::nvml_sim::put_text;
using tessera::nvml_sim::SimDriver;
using tessera::nvml_sim::SimGpu;
namespace abi = tessera::gpu::abi;

namespace {

// "12.4" -> 12040
int cuda_number(std::string_view version) {
  const auto dot = version.find('.');
  const auto major = tessera::parse_int(version.substr(0, dot)).value_or(0);
  const auto minor =
      dot == std::string_view::npos ? 0 : tessera::parse_int(version.substr(dot + 1)).value_or(0);
  return static_cast<int>(major * 1000 + minor * 10);
}

abi::Return handle_by_index(std::string_view function, unsigned index, abi::Device* device) {
  return on_system(function, [&](SimDriver& driver) { return driver.handle_at(index, device); });
}

template <class Matches>
abi::Return find_handle(std::string_view function, abi::Device* device, Matches matches) {
  return on_system(function, [&](SimDriver& driver) -> abi::Return {
    for (const SimGpu& gpu : driver.gpus()) {
      if (matches(gpu)) {
        return gpu.control.lost ? abi::Return{abi::kGpuIsLost} : put(device, driver.handle(gpu.position));
      }
    }
    return abi::kNotFound;
  });
}

abi::Return handle_by_bus_id(std::string_view function, const char* bus_id, abi::Device* device) {
  if (bus_id == nullptr) {
    return abi::kInvalidArgument;
  }
  // The domain may have 4 or 8 digits.
  return find_handle(function, device,
                     [&](const SimGpu& gpu) { return gpu.described->pci_bus_id.ends_with(bus_id); });
}

abi::Return count(std::string_view function, unsigned* gpus) {
  return on_system(function, [&](SimDriver& driver) { return put(gpus, driver.count()); });
}

abi::Return cuda_version(std::string_view function, int* version) {
  return on_system(function,
                   [&](SimDriver& driver) { return put(version, cuda_number(driver.machine().cuda)); });
}

}  // namespace

TESSERA_NVML_EXPORT abi::Return nvmlInit_v2() {
  return SimDriver::instance().init("nvmlInit_v2");
}
TESSERA_NVML_EXPORT abi::Return nvmlInit() {
  return SimDriver::instance().init("nvmlInit");
}
TESSERA_NVML_EXPORT abi::Return nvmlInitWithFlags(unsigned /*flags*/) {
  return SimDriver::instance().init("nvmlInitWithFlags");
}
TESSERA_NVML_EXPORT abi::Return nvmlShutdown() {
  const abi::Return code = SimDriver::instance().enter("nvmlShutdown");
  return code == abi::kSuccess ? SimDriver::instance().shutdown() : code;
}

TESSERA_NVML_EXPORT const char* nvmlErrorString(abi::Return code) {
  switch (code) {
    case abi::kSuccess:
      return "The operation was successful";
    case abi::kUninitialized:
      return "Uninitialized";
    case abi::kInvalidArgument:
      return "Invalid Argument";
    case abi::kNotSupported:
      return "Not Supported";
    case abi::kNoPermission:
      return "Insufficient Permissions";
    case abi::kNotFound:
      return "Not Found";
    case abi::kInsufficientSize:
      return "Insufficient Size";
    case abi::kDriverNotLoaded:
      return "Driver Not Loaded";
    case abi::kTimeout:
      return "Timeout";
    case abi::kFunctionNotFound:
      return "Function Not Found";
    case abi::kGpuIsLost:
      return "GPU is lost";
    case abi::kResetRequired:
      return "GPU requires reset";
    case abi::kLibRmVersionMismatch:
      return "Driver/library version mismatch";
    case abi::kArgumentVersionMismatch:
      return "Argument version mismatch";
    default:
      return "Unknown Error";
  }
}

TESSERA_NVML_EXPORT abi::Return nvmlSystemGetDriverVersion(char* version, unsigned bytes) {
  return on_system("nvmlSystemGetDriverVersion",
                   [&](SimDriver& driver) { return put_text(driver.machine().driver, version, bytes); });
}
TESSERA_NVML_EXPORT abi::Return nvmlSystemGetNVMLVersion(char* version, unsigned bytes) {
  return on_system("nvmlSystemGetNVMLVersion", [&](SimDriver& driver) {
    return put_text(fmt::format("{}.{}", cuda_number(driver.machine().cuda) / 1000, driver.machine().driver),
                    version, bytes);
  });
}
TESSERA_NVML_EXPORT abi::Return nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return cuda_version("nvmlSystemGetCudaDriverVersion_v2", version);
}
TESSERA_NVML_EXPORT abi::Return nvmlSystemGetCudaDriverVersion(int* version) {
  return cuda_version("nvmlSystemGetCudaDriverVersion", version);
}

TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetCount_v2(unsigned* gpus) {
  return count("nvmlDeviceGetCount_v2", gpus);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetCount(unsigned* gpus) {
  return count("nvmlDeviceGetCount", gpus);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetHandleByIndex_v2(unsigned index, abi::Device* device) {
  return handle_by_index("nvmlDeviceGetHandleByIndex_v2", index, device);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetHandleByIndex(unsigned index, abi::Device* device) {
  return handle_by_index("nvmlDeviceGetHandleByIndex", index, device);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetHandleByUUID(const char* uuid, abi::Device* device) {
  return uuid == nullptr ? abi::Return{abi::kInvalidArgument}
                         : find_handle("nvmlDeviceGetHandleByUUID", device,
                                       [&](const SimGpu& gpu) { return gpu.uuid == uuid; });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, abi::Device* device) {
  return handle_by_bus_id("nvmlDeviceGetHandleByPciBusId_v2", bus_id, device);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetHandleByPciBusId(const char* bus_id, abi::Device* device) {
  return handle_by_bus_id("nvmlDeviceGetHandleByPciBusId", bus_id, device);
}
