// The simulated driver behind the C functions: a machine, its control file and the event listeners.
//
// Like the real driver, it is a process-wide singleton and thread-safe. The first nvmlInit reads
// which GPUs are plugged in, and their order, from the control file. Every call reads the other
// settings of that file again, so that changes apply at once.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "control.h"
#include "gpu/nvml_abi.h"
#include "sim/machine.h"

namespace tessera::nvml_sim {

namespace abi = gpu::abi;

// One NVLink of a GPU.
struct SimLink {
  std::optional<unsigned> peer;  // the other GPU; empty: a switch
};

// The state of a GPU during one call.
struct SimGpu {
  unsigned position = 0;  // in the machine description
  unsigned index = 0;     // NVML index
  std::string uuid;
  const sim::MachineGpu* described = nullptr;
  const std::vector<SimLink>* links = nullptr;
  unsigned nvlink_generation = 0;
  bool fabric = false;  // must register with an NVLink fabric (Hopper and later)
  GpuControl control;

  [[nodiscard]] std::uint64_t used_bytes() const;
};

// Identifies a version of a file; all zero if the file does not exist.
struct FileStamp {
  std::uint64_t inode = 0;
  std::int64_t bytes = 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

class SimDriver {
 public:
  static SimDriver& instance();
  SimDriver() = default;
  ~SimDriver();
  SimDriver(const SimDriver&) = delete;
  SimDriver& operator=(const SimDriver&) = delete;

  abi::Return init(std::string_view function);
  abi::Return shutdown();

  // Applies the faults of the control file to the function, and checks that there is a session.
  // Returns kSuccess, or the error that the function must return. Every exported function calls
  // enter() first.
  abi::Return enter(std::string_view function, bool needs_session = true);

  [[nodiscard]] sim::Machine machine();
  [[nodiscard]] unsigned count();
  abi::Return handle_at(unsigned index, abi::Device* device);
  // Returns nothing for an unknown handle. Also finds lost GPUs.
  [[nodiscard]] std::optional<SimGpu> gpu(abi::Device device);
  [[nodiscard]] std::vector<SimGpu> gpus();
  [[nodiscard]] abi::Device handle(unsigned position);

  abi::Return create_events(abi::EventSet* set);
  abi::Return register_events(abi::Device device, std::uint64_t mask, abi::EventSet set);
  abi::Return wait_for_event(abi::EventSet set, abi::EventData* data, std::chrono::milliseconds timeout);
  abi::Return free_events(abi::EventSet set);

 private:
  struct Listener {
    std::map<unsigned, std::uint64_t> masks;  // event types, by position of the GPU
    std::vector<SimEvent> seen;
    std::deque<SimEvent> pending;
  };

  // All require mutex_.
  Status load();
  void refresh();
  void enumerate();
  [[nodiscard]] std::optional<unsigned> position_of(abi::Device device) const;
  [[nodiscard]] SimGpu gpu_at(unsigned position) const;
  void take_new_events(Listener& listener) const;

  std::mutex mutex_;
  bool ended_ = false;
  unsigned sessions_ = 0;
  std::optional<sim::Machine> machine_;
  std::string node_;
  std::vector<std::vector<SimLink>> links_;  // by position
  std::vector<unsigned> order_;              // position of each NVML index, set by nvmlInit
  std::set<unsigned> lost_at_init_;
  std::array<char, topology::kMaxGpus> handles_{};  // their addresses are the handles

  std::string control_path_;
  FileStamp control_stamp_;  // version of the file that was read last
  Control control_;
  std::map<abi::EventSet, std::unique_ptr<Listener>> listeners_;
};

// Returns the links of every GPU, numbered as in a real driver: direct links by peer, then links to
// switches.
std::vector<std::vector<SimLink>> links_of(const topology::Topology& topology);

}  // namespace tessera::nvml_sim
