// gpu/session.h
//
// The work of the driver thread: opens the library, discovers and probes GPUs, waits for events and
// publishes the state. Everything here runs on the driver thread (gpu/driver.h), which calls step()
// in a loop.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/discovery.h"
#include "gpu/driver.h"
#include "gpu/driver_state.h"
#include "gpu/health.h"
#include "gpu/nvml.h"
#include "gpu/reopen_pace.h"
#include "gpu/sysfs.h"

namespace tessera::gpu {

class Session {
 public:
  using Milliseconds = std::chrono::milliseconds;
  using Publish = std::function<void(DriverState)>;

  Session(DriverOptions options, CallMonitor& monitor, Publish publish);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs one step. Blocks for at most options.event_wait unless the driver hangs. Returns how long
  // the thread may sleep before the next step.
  Milliseconds step();

  // Sets DriverOptions::known after construction. Has no effect if a GPU is already known or the
  // driver is ready.
  void set_known(const alloc::Inventory& known);

  Result<std::vector<GpuProcess>> processes(const std::string& uuid);
  Result<GpuUsage> usage(const std::string& uuid);
  std::vector<GpuSample> sample();

 private:
  void restore_known(const alloc::Inventory& known);
  // Opens the library and discovers all GPUs. On failure sets problem_; step() retries later.
  void open();
  void close();
  void forget_handles();
  Status discover_gpus();
  void renew_events();
  void watch_events();
  bool register_all();
  // Returns true if the session must be reopened: GPUs were plugged in or out, or a GPU does not
  // answer and the pause until the next attempt (gpu/reopen_pace.h) is over.
  [[nodiscard]] bool must_reopen(Clock::Steady now);
  void probe_all();
  void probe(std::size_t gpu, Clock::Steady now);
  bool more_answer_now();
  Milliseconds wait_for_events(Clock::Steady now);
  bool read_events(abi::EventSet set, Milliseconds wait);
  void on_event(const abi::EventData& event);
  void count_xid(const std::string& uuid, std::uint64_t xid, XidClass severity);
  // If the current state differs from the published one, logs the changes and publishes the current state.
  void publish();
  [[nodiscard]] DriverState current_state() const;
  // Returns the handle of a GPU, or why there is none.
  [[nodiscard]] Result<abi::Device> handle_of(const std::string& uuid) const;
  HealthTracker& health_of(const std::string& uuid);

  const DriverOptions options_;
  CallMonitor* monitor_;
  Publish publish_;
  Sysfs sysfs_;

  std::optional<Nvml> nvml_;  // set while the driver is ready
  std::string library_;       // path of the last library that was opened
  abi::EventSet events_ = nullptr;
  std::vector<std::string> unwatched_;  // UUIDs of GPUs whose events could not be registered
  std::string problem_ = "the NVIDIA driver has not been opened yet";
  Discovery discovery_;
  std::vector<std::string> pci_devices_;  // Sysfs::nvidia_devices() when this session began
  std::map<std::string, HealthTracker, std::less<>> health_;
  std::map<std::string, alloc::Gpu, std::less<>> ever_;  // every GPU seen, by UUID
  std::map<std::pair<std::string, std::uint64_t>, XidCount> xids_;
  DriverState published_;

  ReopenPace pace_;
  Clock::Steady opened_{};
  Clock::Steady next_open_{};
  Clock::Steady next_probe_{};
  Clock::Steady next_links_{};
};

}  // namespace tessera::gpu
