// gpu/nvml.h
//
// C++ wrapper of NVML. Each call returns a value or the error of the library (NvmlError). If the
// driver or the GPU is too old for a call, NvmlError::unsupported() is true, and most callers treat
// the value as unknown.
//
// Use it from one thread only, because NVML has had thread-safety bugs. Handles are valid until
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
  std::string_view call;  // name of the NVML function, a string literal
  std::string words;      // the library's description of the error

  // Returns whether the driver or the GPU does not support the call.
  [[nodiscard]] bool unsupported() const {
    return code == abi::kNotSupported || code == abi::kFunctionNotFound ||
           code == abi::kArgumentVersionMismatch;
  }
  // Returns "GPU is lost (nvmlDeviceGetUUID: NVML error 15)".
  [[nodiscard]] std::string text() const;
  // Returns "GPU is lost (NVML error 15)": why a GPU is unhealthy. The call is left out, because a
  // probe and a discovery use different calls, and the reason must stay the same.
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] Error error() const;
};

template <class T>
using NvmlResult = tl::expected<T, NvmlError>;
using NvmlStatus = NvmlResult<void>;

struct PciAddress {
  std::uint32_t domain = 0;
  std::uint32_t bus = 0;
  std::uint32_t device = 0;

  // The notation of NVML: "00000000:06:00.0".
  [[nodiscard]] std::string nvml_text() const;
  // The notation of the kernel: "0000:06:00.0".
  [[nodiscard]] std::string sysfs_name() const;
  friend bool operator==(const PciAddress&, const PciAddress&) = default;
};

struct GpuMemory {
  std::uint64_t total = 0;     // bytes
  std::uint64_t reserved = 0;  // used by the driver itself; 0 if the driver does not report it
  std::uint64_t used = 0;      // used by processes; includes the reserved memory if `reserved` is 0
};

// A process that uses a GPU.
struct GpuProcess {
  std::uint32_t pid = 0;                    // in the PID namespace of the host
  std::optional<std::uint64_t> used_bytes;  // empty if not reported (MIG, some platforms)
  // Share of recent time in which its kernels ran; empty if the driver does not report it.
  std::optional<std::uint32_t> busy_percent{};
};

enum class LinkEnd { kGpu, kSwitch, kOther };

struct NvlinkInfo {
  bool active = false;
  // Type and PCI address of the other end. Empty if the link is not active or the driver does not
  // report them. The address of a switch is often the placeholder FFFFFFFF:FF:FF.0.
  std::optional<LinkEnd> end;
  std::optional<PciAddress> remote;
};

class Nvml {
 public:
  // `monitor` must outlive this object.
  Nvml(NvmlLibrary library, CallMonitor& monitor) : library_(std::move(library)), monitor_(&monitor) {}

  // Initializes NVML. The error contains advice for the operator, for example if the driver is not
  // loaded, the versions do not match, or permission is denied.
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
  // Returns the NUMA node of the GPU's own memory. Returns an unsupported() error if the GPU memory
  // is not a NUMA node.
  NvmlResult<unsigned> memory_numa_node(abi::Device gpu);

  NvmlResult<int> common_ancestor(abi::Device a, abi::Device b);  // abi::TopologyLevel
  // Returns the state of one NVLink. Returns kInvalidArgument if `link` is beyond the last link.
  NvmlResult<NvlinkInfo> nvlink(abi::Device gpu, unsigned link);

  NvmlResult<bool> mig_enabled(abi::Device gpu);
  // `state` is an abi::FabricState; `status` is the result of a completed registration.
  struct Fabric {
    std::uint8_t state = abi::kFabricNotSupported;
    abi::Return status = abi::kSuccess;
  };
  NvmlResult<Fabric> fabric(abi::Device gpu);

  NvmlResult<std::uint32_t> recovery_action(abi::Device gpu);  // abi::RecoveryAction
  NvmlResult<std::uint64_t> uncorrected_ecc(abi::Device gpu);  // since the driver was loaded
  NvmlResult<bool> row_remapping_failed(abi::Device gpu);

  // Returns all compute, graphics and MPS client processes, ordered by pid, each once.
  NvmlResult<std::vector<GpuProcess>> processes(abi::Device gpu);

  // Returns the GPU utilization of each process since `since`, in percent, by pid. Idle processes
  // are not included.
  NvmlResult<std::map<std::uint32_t, std::uint32_t>> process_utilization(abi::Device gpu, Clock::Wall since);

  NvmlResult<abi::EventSet> create_event_set();
  // Registers the wanted event types that the GPU supports.
  NvmlStatus register_events(abi::Device gpu, std::uint64_t wanted, abi::EventSet set);
  // Returns the next event, or kTimeout if there is none within `timeout_ms`.
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
