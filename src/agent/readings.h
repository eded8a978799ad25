// agent/readings.h
//
// What the agent knows as metrics: GPUs, containers, the driver, writes to the API server. docs/agent.md
// lists every name. Pure.
//
//   Readings all;
//   all.add_gpus(state, sample, uses);
//   metrics.text(all.take());
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "agent/asker.h"
#include "agent/device_plugin.h"
#include "agent/gpu_allocator.h"
#include "agent/memory_watch.h"
#include "agent/object_keeper.h"
#include "agent/usage.h"
#include "gpu/call_monitor.h"
#include "gpu/driver_state.h"
#include "http/readings.h"
#include "kube/event_aggregator.h"

namespace tessera::agent {

class Readings {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  void gauge(std::string name, std::string help, double value, Labels labels = {});
  void counter(std::string name, std::string help, std::uint64_t value, Labels labels = {});

  // Memory, use, health and errors of each GPU. `uses` gives what is allocated.
  void add_gpus(const gpu::DriverState& state, const UsageSample& sample, const std::vector<MemoryUse>& uses);
  // What each container has and uses of each of its GPUs.
  void add_containers(const gpu::DriverState& state, const std::vector<MemoryUse>& uses,
                      const MemoryWatch& watch);
  void add_driver(const gpu::DriverState& state, const gpu::CallMonitor::Counts& calls, bool hangs,
                  std::optional<std::chrono::nanoseconds> sample_age);
  // How kubelet's questions were answered, and how it was known which pod asked.
  void add_answers(const GpuAllocator::Counts& answers, const AskerSearch::Counts& searches);
  void add_plugins(const std::vector<std::pair<std::string, DevicePluginStatus>>& plugins);
  // What is kept in the API server: {"inventory", state}, ...
  void add_objects(const std::vector<std::pair<std::string, ObjectKeeper::State>>& objects);
  void add_events(const kube::EventAggregator::Counts& events);
  void add_server(const http::ServerStats& stats);

  // In an order in which equal names stand together.
  [[nodiscard]] std::vector<http::Reading> take();

 private:
  std::vector<http::Reading> all_;
};

}  // namespace tessera::agent
