// Functions for health events.
#include "exports.h"

using tessera::nvml_sim::on_gpu;
using tessera::nvml_sim::on_system;
using tessera::nvml_sim::put;
using tessera::nvml_sim::SimDriver;
using tessera::nvml_sim::SimGpu;
namespace abi = tessera::gpu::abi;

namespace {

constexpr std::uint64_t kSupported = abi::kEventSingleBitEcc | abi::kEventDoubleBitEcc | abi::kEventXid |
                                     abi::kEventMigConfig | abi::kEventRecoveryAction;

abi::Return wait(std::string_view function, abi::EventSet set, abi::EventData* data, unsigned timeout_ms) {
  return on_system(function, [&](SimDriver& driver) {
    return driver.wait_for_event(set, data, std::chrono::milliseconds(timeout_ms));
  });
}

}  // namespace

TESSERA_NVML_EXPORT abi::Return nvmlEventSetCreate(abi::EventSet* set) {
  return on_system("nvmlEventSetCreate", [&](SimDriver& driver) -> abi::Return {
    return set == nullptr ? abi::Return{abi::kInvalidArgument} : driver.create_events(set);
  });
}
TESSERA_NVML_EXPORT abi::Return nvmlEventSetFree(abi::EventSet set) {
  return on_system("nvmlEventSetFree", [&](SimDriver& driver) { return driver.free_events(set); });
}
TESSERA_NVML_EXPORT abi::Return nvmlEventSetWait_v2(abi::EventSet set, abi::EventData* data,
                                                    unsigned timeout_ms) {
  return wait("nvmlEventSetWait_v2", set, data, timeout_ms);
}
TESSERA_NVML_EXPORT abi::Return nvmlEventSetWait(abi::EventSet set, abi::EventData* data,
                                                 unsigned timeout_ms) {
  return wait("nvmlEventSetWait", set, data, timeout_ms);
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceGetSupportedEventTypes(abi::Device device,
                                                                 unsigned long long* types) {
  return on_gpu("nvmlDeviceGetSupportedEventTypes", device,
                [&](const SimGpu&) { return put(types, kSupported); });
}
TESSERA_NVML_EXPORT abi::Return nvmlDeviceRegisterEvents(abi::Device device, unsigned long long types,
                                                         abi::EventSet set) {
  return on_gpu("nvmlDeviceRegisterEvents", device, [&](const SimGpu&) -> abi::Return {
    return (types & ~kSupported) != 0 ? abi::Return{abi::kNotSupported}
                                      : SimDriver::instance().register_events(device, types, set);
  });
}
