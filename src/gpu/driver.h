// gpu/driver.h
//
// The NVIDIA driver of this node: its GPUs, their health, what runs on them. The one thing of this folder
// that others need.
//
//   Driver driver({.library = [] { return "libnvidia-ml.so.1"; },
//                  .on_change = [&loop](auto state) { loop.post([state] { ... }); }});
//   driver.wait_ready(500ms);
//   driver.state()->inventory;                 // from memory: safe inside a kubelet call
//   driver.processes(uuid);                    // asks the driver, has a deadline
//
// One thread of its own makes all calls into NVML. It opens the library, again and again until it is there,
// looks at every GPU once a second, waits for the driver's events meanwhile, and publishes a new state when
// something changed. A call that hangs stops that thread and nothing else: state() keeps answering, other
// calls fail at their deadline with the name of the call that hangs, trouble() tells it, and all goes on when
// the call returns.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/call_monitor.h"
#include "gpu/discovery.h"
#include "gpu/driver_state.h"
#include "gpu/health.h"
#include "gpu/nvml.h"

namespace tessera::gpu {

struct DriverOptions {
  using Milliseconds = std::chrono::milliseconds;
  using OnChange = std::function<void(std::shared_ptr<const DriverState>)>;

  // Where the library is. Asked on the driver's thread before each session: a driver may be installed, or
  // make place for another version, while we run.
  std::function<std::string()> library = [] { return std::string(NvmlLibrary::kDefaultPath); };
  std::string sysfs_root = "/sys";
  DiscoveryOptions discovery{};
  HealthRules health{};
  // What is known from before, for GPUs that do not answer: the node's own annotation after a restart.
  alloc::Inventory known{};
  // Runs on the driver's thread: hand the state on, do not block, do not call the driver.
  OnChange on_change{};

  Milliseconds event_wait{250};       // longest that another call waits for the wait for events
  Milliseconds probe_every{750};      // a look at every GPU; what it finds is to be told within a second
  Milliseconds links_every{60'000};   // a look at links and settings
  Milliseconds retry{5'000};          // while library or driver are not there
  Milliseconds reopen_every{30'000};  // while a GPU does not answer: it may need a new session to come back
  Milliseconds reopen_at_last{600'000};  // the same, doubled each time that brought nothing
  Milliseconds hung_after{5'000};        // a call that takes longer is trouble
};

// What a GPU is doing.
struct GpuUsage {
  GpuMemory memory;
  std::optional<std::uint32_t> busy_percent;  // nothing where the driver does not tell
};

// What one look at one GPU told.
struct GpuLook {
  std::string uuid;
  Result<GpuUsage> usage;
  Result<std::vector<GpuProcess>> processes;
};

class Driver {
 public:
  using Milliseconds = std::chrono::milliseconds;
  static constexpr Milliseconds kDeadline{5'000};

  explicit Driver(DriverOptions options);
  // Nobody is in a call any more. on_change is not called after this.
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // DriverOptions::known, found only now. Changes nothing once the driver has told its GPUs.
  void remember(const alloc::Inventory& known);

  // Any thread; never waits for the driver. Before the first answer of the driver (which may never come): not
  // ready, and the GPUs that were known.
  [[nodiscard]] std::shared_ptr<const DriverState> state() const;

  // Waits for a state in which the driver is ready; gives the state of then, ready or not.
  std::shared_ptr<const DriverState> wait_ready(Milliseconds at_most) const;
  // The same for any condition; for tests and start-up.
  std::shared_ptr<const DriverState> wait_for(Milliseconds at_most,
                                              const std::function<bool(const DriverState&)>& good) const;

  // What is wrong with the driver as a whole: not ready, or a call that hangs. For probes and Events; ask
  // again, nothing calls back for a hung call.
  [[nodiscard]] Status trouble() const;
  // How many calls the driver answered, and how many with a failure.
  [[nodiscard]] CallMonitor::Counts calls() const;

  // Opens a new session with the driver soon, as after GPUs were plugged (which is noticed through sysfs).
  void rescan();

  // Fails with kNotFound for a GPU that is not here, kUnavailable for one that does not answer.
  Result<std::vector<GpuProcess>> processes(const std::string& uuid, Milliseconds deadline = kDeadline);
  Result<GpuUsage> usage(const std::string& uuid, Milliseconds deadline = kDeadline);

  // Both of all GPUs, without making anybody wait: `done` comes on the driver's thread, once; late where the
  // driver is slow, never when it hangs for good or this object goes before. Hand the result on, do not
  // block.
  void look_around(std::function<void(std::vector<GpuLook>)> done);

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tessera::gpu
