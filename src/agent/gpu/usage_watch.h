// agent/gpu/usage_watch.h
//
// Samples how much of which GPU each container uses, and finds containers that use more than they
// requested.
//
//   UsageWatch usage(node, store.allocations(), {.sampler = {.proc_root = "/host/proc"}});
//   usage.set_state(driver_state);              // on every change
//   usage.start([&](auto done) { driver.sample(std::move(done)); });
//
// Use it on the event loop's thread. Destroy it there or after the loop has stopped.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/devices/allocations.h"
#include "agent/devices/loop_gate.h"
#include "agent/devices/node_context.h"
#include "agent/devices/readings.h"
#include "agent/gpu/foreign_use.h"
#include "agent/gpu/memory_watch.h"
#include "agent/gpu/usage.h"
#include "base/clock.h"
#include "gpu/driver_state.h"
#include "http/event_loop.h"

namespace tessera::agent {

struct UsageSamplerOptions {
  std::chrono::milliseconds every{10'000};
  std::string proc_root = "/proc";
  const Clock* clock = &Clock::real();
};

// Samples usage and processes of all GPUs every few seconds, without blocking. If the driver hangs,
// the sampler sends no further request. The last sample then stays, and its age grows.
class UsageSampler {
 public:
  // The type of gpu::Driver::sample. The function calls its argument once, on any thread.
  using SampleGpus = std::function<void(std::function<void(std::vector<gpu::GpuSample>)>)>;
  using OnSample = std::function<void(const UsageSample&)>;

  UsageSampler(http::EventLoop& loop, UsageSamplerOptions options, SampleGpus sample_gpus,
               OnSample on_sample);
  UsageSampler(const UsageSampler&) = delete;
  UsageSampler& operator=(const UsageSampler&) = delete;

  void start();

  [[nodiscard]] const UsageSample& latest() const { return latest_; }
  // Returns the time since the last sample; nullopt before the first.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> age() const;

 private:
  void request_sample();
  void on_samples(const std::vector<gpu::GpuSample>& samples);

  http::EventLoop& loop_;
  const UsageSamplerOptions options_;
  SampleGpus sample_gpus_;
  OnSample on_sample_;
  UsageSample latest_;
  std::optional<Clock::Steady> sampled_at_;
  http::Timer timer_;
  LoopGate gate_;
};

struct UsageWatchOptions {
  MemoryRules memory{};
  UsageSamplerOptions sampler{};
};

class UsageWatch {
 public:
  // `allocations` contains GPU allocations. `node` and `allocations` must outlive this object.
  UsageWatch(const NodeContext& node, const Allocations& allocations, UsageWatchOptions options);
  UsageWatch(const UsageWatch&) = delete;
  UsageWatch& operator=(const UsageWatch&) = delete;

  // Sets the current GPUs.
  void set_state(std::shared_ptr<const gpu::DriverState> state) { state_ = std::move(state); }
  // Starts to sample.
  void start(UsageSampler::SampleGpus sample_gpus);

  // Adds the metrics of GPUs and of the containers that use them; none before set_state().
  void add_readings(Readings& readings) const;
  // Returns the time since the last sample; nullopt before the first.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> sample_age() const;

 private:
  [[nodiscard]] std::vector<MemoryUse> uses(const UsageSample& sample,
                                            const alloc::Inventory& inventory) const;
  void sampled(const UsageSample& sample);

  const NodeContext& node_;
  const Allocations& allocations_;
  const UsageWatchOptions options_;
  std::shared_ptr<const gpu::DriverState> state_;  // null before set_state()
  MemoryWatch memory_watch_;
  std::optional<UsageSampler> sampler_;
};

}  // namespace tessera::agent
