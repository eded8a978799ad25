#include "gpu/nvml_library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <initializer_list>

#include "base/strings.h"

namespace tessera::gpu {

namespace {

// Looks up functions, newest version first, and collects the missing ones.
class Symbols {
 public:
  explicit Symbols(void* handle) : handle_(handle) {}

  template <class Function>
  void required(Function*& slot, std::initializer_list<const char*> names) {
    find(slot, names, required_missing_);
  }
  template <class Function>
  void optional(Function*& slot, std::initializer_list<const char*> names) {
    find(slot, names, optional_missing_);
  }

  [[nodiscard]] const std::vector<std::string>& required_missing() const { return required_missing_; }
  [[nodiscard]] std::vector<std::string> take_optional_missing() { return std::move(optional_missing_); }

 private:
  template <class Function>
  void find(Function*& slot, std::initializer_list<const char*> names, std::vector<std::string>& missing) {
    for (const char* name : names) {
      if (void* symbol = ::dlsym(handle_, name)) {
        slot = reinterpret_cast<Function*>(symbol);
        return;
      }
    }
    missing.emplace_back(*names.begin());
  }

  void* handle_;
  std::vector<std::string> required_missing_;
  std::vector<std::string> optional_missing_;
};

void find_required(Symbols& symbols, NvmlFunctions& f) {
  symbols.required(f.init, {"nvmlInit_v2", "nvmlInit"});
  symbols.required(f.shutdown, {"nvmlShutdown"});
  symbols.required(f.device_get_count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  symbols.required(f.device_get_handle_by_index,
                   {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  symbols.required(f.device_get_uuid, {"nvmlDeviceGetUUID"});
  symbols.required(f.device_get_memory_info, {"nvmlDeviceGetMemoryInfo"});
  symbols.required(f.device_get_pci_info,
                   {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"});
  symbols.required(f.device_get_name, {"nvmlDeviceGetName"});
}

void find_optional(Symbols& symbols, NvmlFunctions& f) {
  symbols.optional(f.error_string, {"nvmlErrorString"});
  symbols.optional(f.system_get_driver_version, {"nvmlSystemGetDriverVersion"});
  symbols.optional(f.system_get_cuda_driver_version,
                   {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});
  symbols.optional(f.device_get_minor_number, {"nvmlDeviceGetMinorNumber"});
  symbols.optional(f.device_get_memory_info_v2, {"nvmlDeviceGetMemoryInfo_v2"});
  symbols.optional(f.device_get_cuda_compute_capability, {"nvmlDeviceGetCudaComputeCapability"});
  symbols.optional(f.device_get_utilization_rates, {"nvmlDeviceGetUtilizationRates"});
  symbols.optional(f.device_get_numa_node_id, {"nvmlDeviceGetNumaNodeId"});
  symbols.optional(f.device_get_topology_common_ancestor, {"nvmlDeviceGetTopologyCommonAncestor"});
  symbols.optional(f.device_get_nvlink_state, {"nvmlDeviceGetNvLinkState"});
  symbols.optional(f.device_get_nvlink_remote_pci_info,
                   {"nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo"});
  symbols.optional(f.device_get_nvlink_remote_device_type, {"nvmlDeviceGetNvLinkRemoteDeviceType"});
  symbols.optional(f.device_get_field_values, {"nvmlDeviceGetFieldValues"});
  symbols.optional(f.device_get_mig_mode, {"nvmlDeviceGetMigMode"});
  symbols.optional(f.device_get_fabric_info, {"nvmlDeviceGetGpuFabricInfo"});
  symbols.optional(f.device_get_fabric_info_v, {"nvmlDeviceGetGpuFabricInfoV"});
  symbols.optional(f.device_get_remapped_rows, {"nvmlDeviceGetRemappedRows"});
  symbols.optional(f.device_get_total_ecc_errors, {"nvmlDeviceGetTotalEccErrors"});
  symbols.optional(f.event_set_create, {"nvmlEventSetCreate"});
  // The struct of the first version is a prefix of the second.
  symbols.optional(f.event_set_wait, {"nvmlEventSetWait_v2", "nvmlEventSetWait"});
  symbols.optional(f.event_set_free, {"nvmlEventSetFree"});
  symbols.optional(f.device_get_supported_event_types, {"nvmlDeviceGetSupportedEventTypes"});
  symbols.optional(f.device_register_events, {"nvmlDeviceRegisterEvents"});
  symbols.optional(f.device_get_processes,
                   {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  symbols.optional(f.device_get_processes_v1, {"nvmlDeviceGetComputeRunningProcesses"});
  symbols.optional(f.device_get_graphics_processes,
                   {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"});
  symbols.optional(f.device_get_mps_processes, {"nvmlDeviceGetMPSComputeRunningProcesses_v3",
                                                "nvmlDeviceGetMPSComputeRunningProcesses_v2"});
  symbols.optional(f.device_get_process_utilization, {"nvmlDeviceGetProcessUtilization"});
}

}  // namespace

void NvmlLibrary::Close::operator()(void* handle) const {
  ::dlclose(handle);
}

Result<NvmlLibrary> NvmlLibrary::open(const std::string& path) {
  NvmlLibrary library;
  library.path_ = path;
  library.handle_.reset(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library.handle_ == nullptr) {
    const char* reason = ::dlerror();
    return fail(
        ErrorCode::kNotFound,
        fmt::format("cannot open the NVIDIA library {}: {}; install the NVIDIA driver on this node, or "
                    "set the path with --nvml-library",
                    path, reason == nullptr ? "unknown reason" : reason));
  }
  Symbols symbols(library.handle_.get());
  find_required(symbols, library.functions_);
  find_optional(symbols, library.functions_);
  if (!symbols.required_missing().empty()) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("library {} lacks {}: it is not NVML or too old; use driver 418 or later", path,
                            join_words(symbols.required_missing())));
  }
  library.missing_ = symbols.take_optional_missing();
  return library;
}

}  // namespace tessera::gpu
