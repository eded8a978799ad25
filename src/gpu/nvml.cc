#include "gpu/nvml.h"

#include <fmt/core.h>

#include <algorithm>

#include "gpu/nvml_call.h"

namespace tessera::gpu {

namespace {

// Returns the text that the library wrote into a buffer, which may lack a terminating zero.
template <std::size_t N>
std::string text_of(const std::array<char, N>& buffer) {
  return {buffer.begin(), std::ranges::find(buffer, '\0')};
}

ErrorCode code_of(abi::Return code) {
  switch (code) {
    case abi::kNotSupported:
    case abi::kFunctionNotFound:
    case abi::kArgumentVersionMismatch:
      return ErrorCode::kUnsupported;
    case abi::kNotFound:
    case abi::kGpuNotFound:
      return ErrorCode::kNotFound;
    case abi::kNoPermission:
      return ErrorCode::kDenied;
    default:
      return ErrorCode::kUnavailable;
  }
}

// Returns advice for the operator if nvmlInit fails.
std::string_view remedy(abi::Return code) {
  switch (code) {
    case abi::kDriverNotLoaded:
      return "; load NVIDIA's kernel module (modprobe nvidia) or install the driver on this node";
    case abi::kLibRmVersionMismatch:
      return "; the library has another driver version than the kernel module, as after an update without a "
             "restart: reboot the node or restart its driver container";
    case abi::kNoPermission:
      return "; tessera-agent needs access to /dev/nvidiactl (run it privileged or with that device)";
    default:
      return "; look for NVRM in the kernel log (dmesg)";
  }
}

std::uint64_t low_bits(const abi::FieldValue& field) {
  return field.value_type == abi::kValueUnsignedInt ? field.value & 0xFFFFFFFFU : field.value;
}

}  // namespace

std::string NvmlError::text() const {
  return fmt::format("{} ({}: NVML error {})", words, call, code);
}

std::string NvmlError::reason() const {
  return fmt::format("{} (NVML error {})", words, code);
}

Error NvmlError::error() const {
  return {code_of(code), text()};
}

std::string PciAddress::nvml_text() const {
  return fmt::format("{:08X}:{:02X}:{:02X}.0", domain, bus, device);
}

std::string PciAddress::sysfs_name() const {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", domain, bus, device);
}

NvmlError Nvml::make_error(abi::Return code, std::string_view name) const {
  NvmlError error{.code = code, .call = name, .words = "unknown error"};
  if (code == abi::kFunctionNotFound) {
    error.words = "this driver has no such function";
  } else if (library_.functions().error_string != nullptr) {
    if (const char* words = library_.functions().error_string(code)) {
      error.words = words;
    }
  }
  return error;
}

// Returns `value` if the call succeeded, else its error.
#define NVML_VALUE(status, value)                 \
  do {                                            \
    const auto& nvml_status = (status);           \
    if (!nvml_status) {                           \
      return tl::unexpected(nvml_status.error()); \
    }                                             \
    return value;                                 \
  } while (false)

Status Nvml::init() {
  if (const auto status = call("nvmlInit", library_.functions().init); !status) {
    Error error(code_of(status.error().code),
                status.error().text() + std::string(remedy(status.error().code)));
    return fail(std::move(error).context("NVIDIA driver"));
  }
  return {};
}

void Nvml::shutdown() {
  (void)call("nvmlShutdown", library_.functions().shutdown);
}

NvmlResult<std::string> Nvml::driver_version() {
  std::array<char, abi::kVersionBytes> buffer{};
  const auto status = call("nvmlSystemGetDriverVersion", library_.functions().system_get_driver_version,
                           buffer.data(), abi::kVersionBytes);
  NVML_VALUE(status, text_of(buffer));
}

NvmlResult<std::string> Nvml::cuda_version() {
  int version = 0;
  const auto status =
      call("nvmlSystemGetCudaDriverVersion", library_.functions().system_get_cuda_driver_version, &version);
  NVML_VALUE(status, fmt::format("{}.{}", version / 1000, version % 1000 / 10));
}

NvmlResult<unsigned> Nvml::count() {
  unsigned count = 0;
  const auto status = call("nvmlDeviceGetCount", library_.functions().device_get_count, &count);
  NVML_VALUE(status, count);
}

NvmlResult<abi::Device> Nvml::device(unsigned index) {
  abi::Device device = nullptr;
  const auto status =
      call("nvmlDeviceGetHandleByIndex", library_.functions().device_get_handle_by_index, index, &device);
  NVML_VALUE(status, device);
}

NvmlResult<std::string> Nvml::uuid(abi::Device gpu) {
  std::array<char, abi::kUuidBytes> buffer{};
  const auto status =
      call("nvmlDeviceGetUUID", library_.functions().device_get_uuid, gpu, buffer.data(), abi::kUuidBytes);
  NVML_VALUE(status, text_of(buffer));
}

NvmlResult<std::string> Nvml::name(abi::Device gpu) {
  std::array<char, abi::kNameBytes> buffer{};
  const auto status =
      call("nvmlDeviceGetName", library_.functions().device_get_name, gpu, buffer.data(), abi::kNameBytes);
  NVML_VALUE(status, text_of(buffer));
}

NvmlResult<unsigned> Nvml::minor(abi::Device gpu) {
  unsigned minor = 0;
  const auto status =
      call("nvmlDeviceGetMinorNumber", library_.functions().device_get_minor_number, gpu, &minor);
  NVML_VALUE(status, minor);
}

NvmlResult<PciAddress> Nvml::pci(abi::Device gpu) {
  abi::PciInfo info{};
  const auto status = call("nvmlDeviceGetPciInfo", library_.functions().device_get_pci_info, gpu, &info);
  NVML_VALUE(status, (PciAddress{.domain = info.domain, .bus = info.bus, .device = info.device}));
}

NvmlResult<GpuMemory> Nvml::memory(abi::Device gpu) {
  abi::MemoryV2 detailed{};
  detailed.version = abi::kMemoryV2;
  const auto status =
      call("nvmlDeviceGetMemoryInfo_v2", library_.functions().device_get_memory_info_v2, gpu, &detailed);
  if (status) {
    return GpuMemory{.total = detailed.total, .reserved = detailed.reserved, .used = detailed.used};
  }
  if (!status.error().unsupported()) {
    return tl::unexpected(status.error());
  }
  abi::Memory plain{};
  const auto plain_status =
      call("nvmlDeviceGetMemoryInfo", library_.functions().device_get_memory_info, gpu, &plain);
  NVML_VALUE(plain_status, (GpuMemory{.total = plain.total, .reserved = 0, .used = plain.used}));
}

NvmlResult<std::pair<int, int>> Nvml::compute_capability(abi::Device gpu) {
  std::pair<int, int> capability;
  const auto status =
      call("nvmlDeviceGetCudaComputeCapability", library_.functions().device_get_cuda_compute_capability, gpu,
           &capability.first, &capability.second);
  NVML_VALUE(status, capability);
}

NvmlResult<abi::Utilization> Nvml::utilization(abi::Device gpu) {
  abi::Utilization utilization{};
  const auto status = call("nvmlDeviceGetUtilizationRates", library_.functions().device_get_utilization_rates,
                           gpu, &utilization);
  NVML_VALUE(status, utilization);
}

NvmlResult<unsigned> Nvml::memory_numa_node(abi::Device gpu) {
  unsigned node = 0;
  const auto status =
      call("nvmlDeviceGetNumaNodeId", library_.functions().device_get_numa_node_id, gpu, &node);
  NVML_VALUE(status, node);
}

NvmlResult<int> Nvml::common_ancestor(abi::Device a, abi::Device b) {
  int level = 0;
  const auto status = call("nvmlDeviceGetTopologyCommonAncestor",
                           library_.functions().device_get_topology_common_ancestor, a, b, &level);
  NVML_VALUE(status, level);
}

NvmlResult<NvlinkInfo> Nvml::nvlink(abi::Device gpu, unsigned link) {
  unsigned active = 0;
  const auto status =
      call("nvmlDeviceGetNvLinkState", library_.functions().device_get_nvlink_state, gpu, link, &active);
  if (!status) {
    return tl::unexpected(status.error());
  }
  NvlinkInfo info{.active = active != 0, .end = {}, .remote = {}};
  if (!info.active) {
    return info;
  }
  int type = abi::kRemoteUnknown;
  if (call("nvmlDeviceGetNvLinkRemoteDeviceType", library_.functions().device_get_nvlink_remote_device_type,
           gpu, link, &type) &&
      type != abi::kRemoteUnknown) {
    info.end = type == abi::kRemoteGpu      ? LinkEnd::kGpu
               : type == abi::kRemoteSwitch ? LinkEnd::kSwitch
                                            : LinkEnd::kOther;
  }
  abi::PciInfo remote{};
  if (call("nvmlDeviceGetNvLinkRemotePciInfo", library_.functions().device_get_nvlink_remote_pci_info, gpu,
           link, &remote)) {
    info.remote = PciAddress{.domain = remote.domain, .bus = remote.bus, .device = remote.device};
  }
  return info;
}

NvmlResult<bool> Nvml::mig_enabled(abi::Device gpu) {
  unsigned current = 0;
  unsigned pending = 0;
  const auto status =
      call("nvmlDeviceGetMigMode", library_.functions().device_get_mig_mode, gpu, &current, &pending);
  NVML_VALUE(status, current != 0);
}

NvmlResult<Nvml::Fabric> Nvml::fabric(abi::Device gpu) {
  abi::FabricInfoV2 info{};
  info.version = abi::kFabricInfoV2;
  const auto status =
      call("nvmlDeviceGetGpuFabricInfoV", library_.functions().device_get_fabric_info_v, gpu, &info);
  if (status) {
    return Fabric{.state = info.state, .status = info.status};
  }
  if (!status.error().unsupported()) {
    return tl::unexpected(status.error());
  }
  abi::FabricInfo plain{};
  const auto plain_status =
      call("nvmlDeviceGetGpuFabricInfo", library_.functions().device_get_fabric_info, gpu, &plain);
  NVML_VALUE(plain_status, (Fabric{.state = plain.state, .status = plain.status}));
}

NvmlResult<std::uint32_t> Nvml::recovery_action(abi::Device gpu) {
  constexpr std::string_view kCall = "nvmlDeviceGetFieldValues";
  abi::FieldValue field{};
  field.field = abi::kFieldRecoveryAction;
  // If the library does not know the field, a zero must not be mistaken for "no action".
  field.result = abi::kNotSupported;
  const auto status = call(kCall, library_.functions().device_get_field_values, gpu, 1, &field);
  if (!status) {
    return tl::unexpected(status.error());
  }
  if (field.result != abi::kSuccess) {
    return tl::unexpected(
        make_error(field.result == abi::kInvalidArgument ? abi::kNotSupported : field.result, kCall));
  }
  return static_cast<std::uint32_t>(low_bits(field));
}

NvmlResult<std::uint64_t> Nvml::uncorrected_ecc(abi::Device gpu) {
  unsigned long long count = 0;
  const auto status =
      call("nvmlDeviceGetTotalEccErrors", library_.functions().device_get_total_ecc_errors, gpu,
           static_cast<int>(abi::kEccUncorrected), static_cast<int>(abi::kEccVolatile), &count);
  NVML_VALUE(status, std::uint64_t{count});
}

NvmlResult<bool> Nvml::row_remapping_failed(abi::Device gpu) {
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  const auto status = call("nvmlDeviceGetRemappedRows", library_.functions().device_get_remapped_rows, gpu,
                           &corrected, &uncorrected, &pending, &failed);
  NVML_VALUE(status, failed != 0);
}

NvmlResult<abi::EventSet> Nvml::create_event_set() {
  abi::EventSet set = nullptr;
  const auto status = call("nvmlEventSetCreate", library_.functions().event_set_create, &set);
  NVML_VALUE(status, set);
}

NvmlStatus Nvml::register_events(abi::Device gpu, std::uint64_t wanted, abi::EventSet set) {
  unsigned long long supported = 0;
  auto status = call("nvmlDeviceGetSupportedEventTypes",
                     library_.functions().device_get_supported_event_types, gpu, &supported);
  if (!status) {
    return status;
  }
  if ((wanted & supported) == 0) {
    return tl::unexpected(make_error(abi::kNotSupported, "nvmlDeviceRegisterEvents"));
  }
  return call("nvmlDeviceRegisterEvents", library_.functions().device_register_events, gpu,
              static_cast<unsigned long long>(wanted & supported), set);
}

NvmlResult<abi::EventData> Nvml::wait_for_event(abi::EventSet set, unsigned timeout_ms) {
  abi::EventData event{};
  const auto status = call("nvmlEventSetWait", library_.functions().event_set_wait, set, &event, timeout_ms);
  NVML_VALUE(status, event);
}

void Nvml::free_event_set(abi::EventSet set) {
  (void)call("nvmlEventSetFree", library_.functions().event_set_free, set);
}

#undef NVML_VALUE

}  // namespace tessera::gpu
