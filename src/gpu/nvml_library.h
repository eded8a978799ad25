// gpu/nvml_library.h
//
// Opens libnvidia-ml.so.1 at run time and looks up its functions.
//
//   const NvmlLibrary library = TRY(NvmlLibrary::open("libnvidia-ml.so.1"));
//   library.functions().device_get_count(&count);
//
// Uses the newest version of each function that the library has. An optional function that the
// library lacks is a null pointer, and missing() lists it. open() fails if the library lacks a
// function that every driver has.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/nvml_abi.h"

namespace tessera::gpu {

struct NvmlFunctions {
  using R = abi::Return;
  using D = abi::Device;

  // Every driver has these.
  R (*init)() = nullptr;
  R (*shutdown)() = nullptr;
  R (*device_get_count)(unsigned*) = nullptr;
  R (*device_get_handle_by_index)(unsigned, D*) = nullptr;
  R (*device_get_uuid)(D, char*, unsigned) = nullptr;
  R (*device_get_memory_info)(D, abi::Memory*) = nullptr;
  R (*device_get_pci_info)(D, abi::PciInfo*) = nullptr;
  R (*device_get_name)(D, char*, unsigned) = nullptr;

  // The others are optional.
  const char* (*error_string)(R) = nullptr;
  R (*system_get_driver_version)(char*, unsigned) = nullptr;
  R (*system_get_cuda_driver_version)(int*) = nullptr;
  R (*device_get_minor_number)(D, unsigned*) = nullptr;
  R (*device_get_memory_info_v2)(D, abi::MemoryV2*) = nullptr;
  R (*device_get_cuda_compute_capability)(D, int*, int*) = nullptr;
  R (*device_get_utilization_rates)(D, abi::Utilization*) = nullptr;
  R (*device_get_numa_node_id)(D, unsigned*) = nullptr;
  R (*device_get_topology_common_ancestor)(D, D, int*) = nullptr;
  R (*device_get_nvlink_state)(D, unsigned, unsigned*) = nullptr;
  R (*device_get_nvlink_remote_pci_info)(D, unsigned, abi::PciInfo*) = nullptr;
  R (*device_get_nvlink_remote_device_type)(D, unsigned, int*) = nullptr;
  R (*device_get_field_values)(D, int, abi::FieldValue*) = nullptr;
  R (*device_get_mig_mode)(D, unsigned*, unsigned*) = nullptr;
  R (*device_get_fabric_info)(D, abi::FabricInfo*) = nullptr;
  R (*device_get_fabric_info_v)(D, abi::FabricInfoV2*) = nullptr;
  R (*device_get_remapped_rows)(D, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  R (*device_get_total_ecc_errors)(D, int, int, unsigned long long*) = nullptr;
  R (*event_set_create)(abi::EventSet*) = nullptr;
  R (*event_set_wait)(abi::EventSet, abi::EventData*, unsigned) = nullptr;
  R (*event_set_free)(abi::EventSet) = nullptr;
  R (*device_get_supported_event_types)(D, unsigned long long*) = nullptr;
  R (*device_register_events)(D, unsigned long long, abi::EventSet) = nullptr;

  // Versions 2 and 3 use ProcessInfo, version 1 uses ProcessInfoV1.
  R (*device_get_processes)(D, unsigned*, abi::ProcessInfo*) = nullptr;
  R (*device_get_processes_v1)(D, unsigned*, abi::ProcessInfoV1*) = nullptr;
  R (*device_get_graphics_processes)(D, unsigned*, abi::ProcessInfo*) = nullptr;
  R (*device_get_mps_processes)(D, unsigned*, abi::ProcessInfo*) = nullptr;
  R (*device_get_process_utilization)(D, abi::ProcessUtilization*, unsigned*, unsigned long long) = nullptr;
};

class NvmlLibrary {
 public:
  static constexpr std::string_view kDefaultPath = "libnvidia-ml.so.1";

  // Opens the library. The dynamic loader searches for a plain name; a path is used as is. Returns
  // kNotFound if there is no such library, and kUnsupported if the library is not NVML or is too
  // old.
  static Result<NvmlLibrary> open(const std::string& path);

  [[nodiscard]] const NvmlFunctions& functions() const { return functions_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  // The optional functions that this library lacks, by their newest names.
  [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }

 private:
  struct Close {
    void operator()(void* handle) const;
  };

  std::unique_ptr<void, Close> handle_;
  std::string path_;
  NvmlFunctions functions_;
  std::vector<std::string> missing_;
};

}  // namespace tessera::gpu
