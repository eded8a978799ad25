// gpu/driver.h
//
// The NVIDIA driver of this node: its GPUs, their health and the processes on them. This is the
// interface of the folder.
//
//   Driver driver({.library = [] { return "libnvidia-ml.so.1"; },
//                  .on_change = [&loop](auto state) { loop.post([state] { ... }); }});
//   driver.wait_ready(500ms);
//   driver.state()->inventory;  // from memory: safe inside a kubelet call
//   driver.processes(uuid);     // calls the driver, has a deadline
//
// One thread, the driver thread, makes all calls into NVML. It opens the library, and retries until
// that succeeds. It probes every GPU about once a second and waits for driver events in between.
// When something changes, it publishes a new state.
//
// A hung call blocks only the driver thread. state() still answers from memory. Other calls fail at
// their deadline with the name of the hung call, and problem() reports the hung call. The driver
// thread continues when the call returns.
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

  // Returns the path of the library. Called on the driver thread before each session, because a
  // driver may be installed or upgraded while the process runs.
  std::function<std::string()> library = [] { return std::string(NvmlLibrary::kDefaultPath); };
  std::string sysfs_root = "/sys";
  DiscoveryOptions discovery{};
  HealthRules health{};
  // The last known inventory of this node. It identifies GPUs that do not answer. After a restart,
  // the agent restores it from its state directory or from the Node's annotation.
  alloc::Inventory known{};
  // Called on the driver thread. Must not block and must not call the driver.
  OnChange on_change{};

  Milliseconds event_wait{250};      // longest wait for events; can delay other calls by as much
  Milliseconds probe_every{750};     // interval of probes; changes must be visible within a second
  Milliseconds links_every{60'000};  // interval of discovery: GPUs, their links and settings
  Milliseconds retry{5'000};         // interval of attempts while no driver or no GPU answers
  // While a GPU does not answer, the session is closed and reopened at this interval, because some
  // GPUs come back only in a new session. The interval doubles after each attempt without success,
  // up to reopen_at_most.
  Milliseconds reopen_every{30'000};
  Milliseconds reopen_at_most{600'000};
  Milliseconds hung_after{5'000};  // problem() reports a call that takes longer
};

// Memory and utilization of a GPU.
struct GpuUsage {
  GpuMemory memory;
  std::optional<std::uint32_t> busy_percent;  // empty if the driver does not report it
};

// The usage and the processes of one GPU, read together by sample().
struct GpuSample {
  std::string uuid;
  Result<GpuUsage> usage;
  Result<std::vector<GpuProcess>> processes;
};

class Driver {
 public:
  using Milliseconds = std::chrono::milliseconds;
  static constexpr Milliseconds kDeadline{5'000};

  explicit Driver(DriverOptions options);
  // No other thread may be inside a member function. on_change is not called after the destructor
  // returns.
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // Sets DriverOptions::known after construction. Has no effect after the driver has listed its
  // GPUs.
  void set_known(const alloc::Inventory& known);

  // Returns the current state without waiting for the driver. Before the first answer of the
  // driver, the state is not ready and lists the known GPUs. Call it from any thread.
  [[nodiscard]] std::shared_ptr<const DriverState> state() const;

  // Waits until the driver is ready, for at most `at_most`. Returns the current state, ready or
  // not.
  std::shared_ptr<const DriverState> wait_ready(Milliseconds at_most) const;
  // Waits until `good` returns true for the current state, for at most `at_most`. Returns the
  // current state.
  std::shared_ptr<const DriverState> wait_for(Milliseconds at_most,
                                              const std::function<bool(const DriverState&)>& good) const;

  // Returns kUnavailable if the driver is not ready and kTimeout if a call hangs. Poll it, because
  // on_change is not called for a hung call.
  [[nodiscard]] Status problem() const;
  // The number of completed driver calls and of those that failed.
  [[nodiscard]] CallMonitor::Counts calls() const;

  // Return the processes or the usage of one GPU. Return kNotFound for an unknown GPU, kUnavailable
  // for a GPU that does not answer, and kTimeout if the driver does not answer within `deadline`.
  Result<std::vector<GpuProcess>> processes(const std::string& uuid, Milliseconds deadline = kDeadline);
  Result<GpuUsage> usage(const std::string& uuid, Milliseconds deadline = kDeadline);

  // Reads usage and processes of all GPUs without blocking the caller. Calls `done` once on the
  // driver thread, or never if a call hangs forever or the Driver is destroyed first. `done` must
  // not block.
  void sample(std::function<void(std::vector<GpuSample>)> done);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::gpu
