// The control file of the simulated driver: what is wrong with the machine right now. docs/simulated-gpus.md
// shows it by example. An empty or absent file is a machine that is well.
//
// GPUs are named by their place in the machine description, which no re-enumeration changes.
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
  bool mps = false;  // an MPS client: listed where the driver lists those
  unsigned busy_percent = 0;
};

// What is special about one GPU.
struct GpuControl {
  bool lost = false;
  bool mig = false;
  std::uint64_t ecc = 0;                             // uncorrected errors so far
  bool remap_failed = false;                         // a row could not be remapped
  std::uint32_t recovery_action = 0;                 // gpu::abi::RecoveryAction
  std::uint8_t fabric = gpu::abi::kFabricCompleted;  // where there is a fabric
  std::set<unsigned> nvlinks_down;                   // numbers of links
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
  gpu::abi::Return init = gpu::abi::kSuccess;         // what nvmlInit answers
  std::set<std::string, std::less<>> missing;         // functions that answer "function not found"
  std::set<std::string, std::less<>> hang;            // functions that do not return while they stand here
  std::map<std::string, unsigned, std::less<>> slow;  // functions that take so many milliseconds
  std::vector<unsigned> order;  // GPUs in the order of their NVML index; empty: as described
  std::set<unsigned> removed;   // GPUs that are unplugged
  std::map<unsigned, GpuControl> gpus;
  std::vector<SimEvent> events;  // each is sent once, when it appears here

  [[nodiscard]] const GpuControl& gpu(unsigned position) const;

  // `gpus` is how many the machine has. Fails with the line and what is wrong with it.
  static Result<Control> parse(std::string_view yaml, unsigned gpus);
};

}  // namespace tessera::nvml_sim
