// The simulated driver behind the C functions: a machine, its control file, and who is listening for events.
//
// Like the real one it is a single thing of the process and may be called from any thread. What is plugged in
// and in which order is looked at when the first nvmlInit comes, everything else at every call.
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

// One NVLink of a GPU: to another one, or into a switch.
struct SimLink {
  std::optional<unsigned> peer;
};

// A GPU as a call sees it.
struct SimGpu {
  unsigned position = 0;  // in the machine description
  unsigned index = 0;     // NVML's
  std::string uuid;
  const sim::MachineGpu* described = nullptr;
  const std::vector<SimLink>* links = nullptr;
  unsigned nvlink_generation = 0;
  bool fabric = false;  // has an NVLink fabric that it must join (Hopper and later)
  GpuControl control;

  [[nodiscard]] std::uint64_t used_bytes() const;
};

// Changes whenever a file does; all zero when there is none.
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

  // Every call begins here: what the control file says about this function, and whether there is a session.
  abi::Return enter(std::string_view function, bool needs_session = true);

  [[nodiscard]] sim::Machine machine();
  [[nodiscard]] unsigned count();
  abi::Return handle_at(unsigned index, abi::Device* device);
  // Nothing when the handle is none of ours. `lost` GPUs are found too.
  [[nodiscard]] std::optional<SimGpu> gpu(abi::Device device);
  [[nodiscard]] std::vector<SimGpu> gpus();
  [[nodiscard]] abi::Device handle(unsigned position);

  abi::Return create_events(abi::EventSet* set);
  abi::Return register_events(abi::Device device, std::uint64_t mask, abi::EventSet set);
  abi::Return wait_for_event(abi::EventSet set, abi::EventData* data, std::chrono::milliseconds timeout);
  abi::Return free_events(abi::EventSet set);

 private:
  struct Listener {
    std::map<unsigned, std::uint64_t> masks;  // by position
    std::vector<SimEvent> seen;
    std::deque<SimEvent> pending;
  };

  // All under mutex_.
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
  std::vector<unsigned> order_;              // position of each index, as of nvmlInit
  std::set<unsigned> lost_at_init_;
  std::array<char, topology::kMaxGpus> handles_{};  // their addresses are the handles

  std::string control_path_;
  FileStamp control_stamp_;  // of the file as last read
  Control control_;
  std::map<abi::EventSet, std::unique_ptr<Listener>> listeners_;
};

// The links of every GPU, numbered as a driver would: direct ones peer by peer, then those into switches.
std::vector<std::vector<SimLink>> links_of(const topology::Topology& topology);

}  // namespace tessera::nvml_sim
