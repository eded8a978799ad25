// gpu/nvml_abi.h
//
// The part of the NVML ABI (libnvidia-ml.so.1) that we use, on 64-bit Linux. These are our own
// declarations; NVIDIA's header is not needed. The simulated library (sim/nvml) uses the same file,
// and static_asserts check the sizes.
//
// A versioned struct has `sizeof | version << 24` in its first word. For any other value the
// library returns kArgumentVersionMismatch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tessera::gpu::abi {

using Return = int;
using Device = struct DeviceTag*;      // opaque; valid until nvmlShutdown
using EventSet = struct EventSetTag*;  // opaque

enum ReturnCode : Return {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kLibraryNotFound = 12,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kOperatingSystem = 17,
  kLibRmVersionMismatch = 18,
  kArgumentVersionMismatch = 25,
  kNotReady = 27,
  kGpuNotFound = 28,
  kUnknown = 999,
};

inline constexpr unsigned kNameBytes = 96;
inline constexpr unsigned kUuidBytes = 96;
inline constexpr unsigned kVersionBytes = 80;

constexpr std::uint32_t struct_version(std::size_t bytes, std::uint32_t version) {
  return static_cast<std::uint32_t>(bytes) | (version << 24U);
}

// Use only `domain`, `bus` and `device`: they are the same in all versions of the call. Older
// versions of the struct end before bus_id.
struct PciInfo {
  std::array<char, 16> bus_id_legacy;
  std::uint32_t domain;
  std::uint32_t bus;
  std::uint32_t device;
  std::uint32_t device_id;     // device << 16 | vendor
  std::uint32_t subsystem_id;  // undefined for the remote end of an NVLink
  std::array<char, 32> bus_id;
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, bus_id) == 36);

struct Memory {
  std::uint64_t total;
  std::uint64_t free;
  std::uint64_t used;  // includes what the driver reserves for itself
};
static_assert(sizeof(Memory) == 24);

struct MemoryV2 {
  std::uint32_t version;
  std::uint64_t total;
  std::uint64_t reserved;  // what the driver reserves for itself
  std::uint64_t free;
  std::uint64_t used;
};
static_assert(sizeof(MemoryV2) == 40 && offsetof(MemoryV2, reserved) == 16);
inline constexpr std::uint32_t kMemoryV2 = struct_version(sizeof(MemoryV2), 2);

struct Utilization {
  std::uint32_t gpu;     // percent of time in which a kernel ran
  std::uint32_t memory;  // percent of time in which memory was read or written
};
static_assert(sizeof(Utilization) == 8);

inline constexpr std::uint64_t kMemoryNotAvailable = ~std::uint64_t{0};
inline constexpr std::uint32_t kNoInstance = 0xFFFFFFFFU;

// A process, as nvmlDeviceGetComputeRunningProcesses returns it.
struct ProcessInfoV1 {
  std::uint32_t pid;
  std::uint64_t used_memory;
};
static_assert(sizeof(ProcessInfoV1) == 16);

// A process, as the _v2 and _v3 versions of nvmlDeviceGet...RunningProcesses return it.
struct ProcessInfo {
  std::uint32_t pid;
  std::uint64_t used_memory;  // bytes, or kMemoryNotAvailable
  std::uint32_t gpu_instance;
  std::uint32_t compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);

struct ProcessUtilization {
  std::uint32_t pid;
  std::uint64_t timestamp;  // microseconds since 1970
  std::uint32_t sm;         // percent of time in which its kernels ran
  std::uint32_t memory;
  std::uint32_t encoder;
  std::uint32_t decoder;
};
static_assert(sizeof(ProcessUtilization) == 32 && offsetof(ProcessUtilization, sm) == 16);

struct EventData {
  Device device;
  std::uint64_t type;
  std::uint64_t data;  // the XID, for XID events
  std::uint32_t gpu_instance;
  std::uint32_t compute_instance;
};
static_assert(sizeof(EventData) == 32);

enum EventType : std::uint64_t {
  kEventSingleBitEcc = 0x1,
  kEventDoubleBitEcc = 0x2,
  kEventXid = 0x8,
  kEventMigConfig = 0x100,
  kEventFatalPoison = 0x2000,
  kEventGpuUnavailable = 0x4000,
  kEventRecoveryAction = 0x8000,
};

struct FieldValue {
  std::uint32_t field;
  std::uint32_t scope;
  std::int64_t timestamp;
  std::int64_t latency_us;
  std::uint32_t value_type;
  Return result;
  std::uint64_t value;  // a union in C; a 32-bit value is in the low bytes (little-endian)
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, value) == 32);

enum Field : std::uint32_t {
  kFieldNvlinkCount = 91,
  kFieldRecoveryAction = 230,
};
enum ValueType : std::uint32_t {
  kValueUnsignedInt = 1,
  kValueUnsignedLong = 2,
  kValueUnsignedLongLong = 3,
};

struct FabricInfo {
  std::array<std::uint8_t, 16> cluster_uuid;
  Return status;
  std::uint32_t clique;
  std::uint8_t state;
};
static_assert(sizeof(FabricInfo) == 28);

struct FabricInfoV2 {
  std::uint32_t version;
  std::array<std::uint8_t, 16> cluster_uuid;
  Return status;
  std::uint32_t clique;
  std::uint8_t state;
  std::uint32_t health_mask;
};
static_assert(sizeof(FabricInfoV2) == 36 && offsetof(FabricInfoV2, state) == 28);
inline constexpr std::uint32_t kFabricInfoV2 = struct_version(sizeof(FabricInfoV2), 2);

enum FabricState : std::uint8_t {
  kFabricNotSupported = 0,
  kFabricNotStarted = 1,
  kFabricInProgress = 2,
  kFabricCompleted = 3,
};

enum TopologyLevel : int {
  kTopologyInternal = 0,
  kTopologySingle = 10,
  kTopologyMultiple = 20,
  kTopologyHostBridge = 30,
  kTopologyNode = 40,
  kTopologySystem = 50,
};

enum LinkRemote : int {
  kRemoteGpu = 0,
  kRemoteNpu = 1,
  kRemoteSwitch = 2,
  kRemoteUnknown = 0xFF,
};
// The largest number of links in any library version. Older versions have 6, 12 or 18 and return
// kInvalidArgument for the first link that they do not know.
inline constexpr unsigned kMaxLinks = 36;

enum RecoveryAction : std::uint32_t {
  kRecoveryNone = 0,
  kRecoveryGpuReset = 1,
  kRecoveryNodeReboot = 2,
  kRecoveryDrainP2p = 3,
  kRecoveryDrainAndReset = 4,
  kRecoveryImex = 5,
};

// The GPU memory that the processes of one cgroup may use (driver r615 and newer). `cgroup` is the
// path of the cgroup's directory. A process below the soft limit keeps its memory; no process gets more than
// the hard limit. These structs have no version.
struct SetMemoryLimits {
  const char* cgroup;
  std::uint64_t soft;  // bytes; 0: none
  std::uint64_t hard;  // bytes; kNoMemoryLimit: none
};
static_assert(sizeof(SetMemoryLimits) == 24);
struct GetMemoryLimits {
  const char* cgroup;
  std::uint64_t soft;
  std::uint64_t hard;
  std::uint64_t used;
};
static_assert(sizeof(GetMemoryLimits) == 32);
inline constexpr std::uint64_t kNoMemoryLimit = ~std::uint64_t{0};

enum EccError : int { kEccCorrected = 0, kEccUncorrected = 1 };
// Volatile counters start at 0 when the driver is loaded.
enum EccCounter : int { kEccVolatile = 0, kEccAggregate = 1 };

}  // namespace tessera::gpu::abi
