// gpu/session.h
//
// The driver's thread at work: opens the library, discovers, probes, waits for events, publishes. Everything
// here runs on that one thread (gpu/driver.h); step() is its heartbeat.
#pragma once

#include <atomic>
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

  // One round; blocks at most for options.event_wait in a driver that is well. Says how long the thread may
  // sleep before the next.
  Milliseconds step();

  // The next round starts a new session with the driver. From any thread.
  void request_reopen() { reopen_requested_ = true; }

  // DriverOptions::known, found only now.
  void remember(const alloc::Inventory& known);

  Result<std::vector<GpuProcess>> processes(const std::string& uuid);
  Result<GpuUsage> usage(const std::string& uuid);
  std::vector<GpuLook> look_around();

 private:
  void know(const alloc::Inventory& known);
  void open();
  void close();
  void forget_handles();
  Status discover_gpus();
  void renew_events();
  void watch_events();
  bool register_all();
  [[nodiscard]] bool must_reopen(Clock::Steady now);
  void probe_all();
  void probe(std::size_t gpu, Clock::Steady now);
  bool more_answer_now();
  Milliseconds wait_for_events(Clock::Steady now);
  bool read_events(abi::EventSet set, Milliseconds wait);
  void on_event(const abi::EventData& event);
  void count_xid(const std::string& uuid, std::uint64_t xid, XidClass taken_as);
  void publish();
  [[nodiscard]] DriverState current_state() const;
  [[nodiscard]] Result<abi::Device> answering(const std::string& uuid) const;
  HealthTracker& health_of(const std::string& uuid);

  const DriverOptions options_;
  CallMonitor* monitor_;
  Publish publish_;
  Sysfs sysfs_;

  std::optional<Nvml> nvml_;  // there while the driver is ready
  std::string library_;       // that it was opened from last
  abi::EventSet events_ = nullptr;
  std::vector<std::string> unwatched_;  // UUIDs whose events the driver refuses
  std::string problem_ = "the NVIDIA driver has not been asked yet";
  Discovery discovery_;
  std::vector<std::string> pci_devices_;  // of sysfs, when this session began
  std::map<std::string, HealthTracker, std::less<>> health_;
  std::map<std::string, alloc::Gpu, std::less<>> ever_;  // every GPU seen, by UUID
  std::map<std::pair<std::string, std::uint64_t>, XidCount> xids_;
  DriverState published_;

  ReopenPace pace_;
  std::atomic<bool> reopen_requested_ = false;
  Clock::Steady opened_{};
  Clock::Steady next_open_{};
  Clock::Steady next_probe_{};
  Clock::Steady next_links_{};
};

}  // namespace tessera::gpu
