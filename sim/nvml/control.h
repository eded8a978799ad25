// The control file of the simulated driver: the current faults of the machine.
// docs/simulated-gpus.md has examples. An empty or missing file means that the machine is healthy.
//
// GPUs are identified by their position in the machine description, which never changes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/nvml_abi.h"

namespace tessera::nvml_sim {

struct SimProcess {
  std::uint32_t pid = 0;
  std::uint64_t memory_mib = 0;
  bool mps = false;  // an MPS client, which the driver lists separately
  unsigned busy_percent = 0;
};

// The faults and the load of one GPU.
struct GpuControl {
  bool lost = false;
  bool mig = false;
  std::uint64_t ecc = 0;                             // number of uncorrected errors
  bool remap_failed = false;                         // a row could not be remapped
  std::uint32_t recovery_action = 0;                 // gpu::abi::RecoveryAction
  std::uint8_t fabric = gpu::abi::kFabricCompleted;  // registration state, if the GPU has a fabric
  std::set<unsigned> nvlinks_down;                   // link numbers
  unsigned busy_percent = 0;
  std::vector<SimProcess> processes;
};

struct SimEvent {
  unsigned gpu = 0;
  std::uint64_t type = 0;  // gpu::abi::EventType
  std::uint64_t data = 0;

  friend bool operator==(const SimEvent&, const SimEvent&) = default;
};

struct Control {
  gpu::abi::Return init = gpu::abi::kSuccess;         // result of nvmlInit
  std::set<std::string, std::less<>> missing;         // functions that return "function not found"
  std::set<std::string, std::less<>> hang;            // functions that do not return while listed here
  std::map<std::string, unsigned, std::less<>> slow;  // duration of functions in milliseconds
  std::vector<unsigned> order;  // GPUs in the order of their NVML index; empty: as described
  std::set<unsigned> removed;   // GPUs that are unplugged
  std::map<unsigned, GpuControl> gpus;
  std::vector<SimEvent> events;  // each is sent once, when it appears here

  [[nodiscard]] const GpuControl& gpu(unsigned position) const;

  // Parses a control file for a machine with `gpus` GPUs. Returns kInvalid, with the line and the
  // reason, if the file is invalid.
  static Result<Control> parse(std::string_view yaml, unsigned gpus);
};

}  // namespace tessera::nvml_sim
