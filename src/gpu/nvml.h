// gpu/nvml.h
//
// NVML in C++: each call gives its value or the library's reason. What a driver does not know of (old driver,
// old GPU) is an NvmlError with unsupported(), which most callers treat as "nothing to tell".
//
// One thread, always the same: NVML has had its share of thread-safety bugs. Handles are good until
// shutdown().
//
//   Nvml nvml(TRY(NvmlLibrary::open(path)), monitor);
//   TRY(nvml.init());
//   const abi::Device gpu = ...nvml.device(0);
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gpu/call_monitor.h"
#include "gpu/nvml_abi.h"
#include "gpu/nvml_library.h"

namespace tessera::gpu {

struct NvmlError {
  abi::Return code = abi::kUnknown;
  std::string_view call;  // a literal
  std::string words;      // the library's

  // This driver or this GPU does not know such a thing.
  [[nodiscard]] bool unsupported() const {
    return code == abi::kNotSupported || code == abi::kFunctionNotFound ||
           code == abi::kArgumentVersionMismatch;
  }
  // "GPU is lost (nvmlDeviceGetUUID: NVML error 15)"
  [[nodiscard]] std::string text() const;
  [[nodiscard]] Error error() const;
};

template <class T>
using NvmlResult = tl::expected<T, NvmlError>;
using NvmlStatus = NvmlResult<void>;

struct PciAddress {
  std::uint32_t domain = 0;
  std::uint32_t bus = 0;
  std::uint32_t device = 0;

  // "00000000:06:00.0", as NVML prints it.
  [[nodiscard]] std::string nvml_text() const;
  // "0000:06:00.0", as the kernel names it.
  [[nodiscard]] std::string sysfs_name() const;
  friend bool operator==(const PciAddress&, const PciAddress&) = default;
};

struct GpuMemory {
  std::uint64_t total = 0;     // bytes
  std::uint64_t reserved = 0;  // by the driver for itself; 0 where it does not say
  std::uint64_t used = 0;      // by processes: without `reserved` where that is known
};

// What runs on a GPU.
struct GpuProcess {
  std::uint32_t pid = 0;                    // as the host sees it
  std::optional<std::uint64_t> used_bytes;  // nothing where the driver does not tell (MIG, some platforms)
  // Of the time lately in which its kernels ran; nothing where the driver does not tell.
  std::optional<std::uint32_t> busy_percent{};
};

enum class LinkEnd { kGpu, kSwitch, kOther };

struct NvlinkInfo {
  bool active = false;
  std::optional<LinkEnd> end;        // nothing: this driver cannot say
  std::optional<PciAddress> remote;  // of a switch often a placeholder, FFFFFFFF:FF:FF.0
};

class Nvml {
 public:
  // `monitor` must outlive this object.
  Nvml(NvmlLibrary library, CallMonitor& monitor) : library_(std::move(library)), monitor_(&monitor) {}

  // Fails in a person's words: no driver loaded, versions that do not fit, no permission.
  Status init();
  void shutdown();

  [[nodiscard]] const NvmlLibrary& library() const { return library_; }

  NvmlResult<std::string> driver_version();
  NvmlResult<std::string> cuda_version();  // "12.4"

  NvmlResult<unsigned> count();
  NvmlResult<abi::Device> device(unsigned index);

  NvmlResult<std::string> uuid(abi::Device gpu);
  NvmlResult<std::string> name(abi::Device gpu);
  NvmlResult<unsigned> minor(abi::Device gpu);
  NvmlResult<PciAddress> pci(abi::Device gpu);
  NvmlResult<GpuMemory> memory(abi::Device gpu);
  NvmlResult<std::pair<int, int>> compute_capability(abi::Device gpu);
  NvmlResult<abi::Utilization> utilization(abi::Device gpu);
  // The NUMA node that the GPU's own memory is; unsupported where it is none.
  NvmlResult<unsigned> memory_numa_node(abi::Device gpu);

  NvmlResult<int> common_ancestor(abi::Device a, abi::Device b);  // abi::TopologyLevel
  // Fails with kInvalidArgument past the last link.
  NvmlResult<NvlinkInfo> nvlink(abi::Device gpu, unsigned link);

  NvmlResult<bool> mig_enabled(abi::Device gpu);
  // abi::FabricState; the status tells whether a completed registration succeeded.
  struct Fabric {
    std::uint8_t state = abi::kFabricNotSupported;
    abi::Return status = abi::kSuccess;
  };
  NvmlResult<Fabric> fabric(abi::Device gpu);

  NvmlResult<std::uint32_t> recovery_action(abi::Device gpu);  // abi::RecoveryAction
  NvmlResult<std::uint64_t> uncorrected_ecc(abi::Device gpu);  // since the driver was loaded
  NvmlResult<bool> row_remapping_failed(abi::Device gpu);

  // Compute, graphics and MPS clients together, by ascending pid, each once.
  NvmlResult<std::vector<GpuProcess>> processes(abi::Device gpu);

  // How busy each process kept the GPU, by pid, in percent of the time since then. A process that did nothing
  // is not there.
  NvmlResult<std::map<std::uint32_t, std::uint32_t>> process_utilization(abi::Device gpu, Clock::Wall since);

  NvmlResult<abi::EventSet> create_event_set();
  // As many of the wanted kinds as the GPU knows.
  NvmlStatus register_events(abi::Device gpu, std::uint64_t wanted, abi::EventSet set);
  // kTimeout when there is none.
  NvmlResult<abi::EventData> wait_for_event(abi::EventSet set, unsigned timeout_ms);
  void free_event_set(abi::EventSet set);

 private:
  template <class... Parameters, class... Arguments>
  NvmlStatus call(std::string_view name, abi::Return (*function)(Parameters...), Arguments... arguments);
  template <class Info>
  NvmlResult<std::vector<Info>> process_list(std::string_view name,
                                             abi::Return (*function)(abi::Device, unsigned*, Info*),
                                             abi::Device gpu);
  [[nodiscard]] NvmlError make_error(abi::Return code, std::string_view name) const;

  NvmlLibrary library_;
  CallMonitor* monitor_;
};

}  // namespace tessera::gpu
