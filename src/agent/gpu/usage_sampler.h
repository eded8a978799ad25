// agent/gpu/usage_sampler.h
//
// Asks the driver every few seconds who uses what, without ever waiting for it.
//
//   UsageSampler sampler(loop, {.every = 10s, .proc_root = "/host/proc"},
//                        [&](auto done) { driver.look_around(std::move(done)); },
//                        [&](const UsageSample& sample) { ... });
//   sampler.start();
//
// A driver that hangs is asked no second time: the last sample stays, and its age grows. On the event loop's
// thread; destroy it there or after it.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/loop_gate.h"
#include "agent/gpu/usage.h"
#include "base/clock.h"
#include "http/event_loop.h"

namespace tessera::agent {

struct UsageSamplerOptions {
  std::chrono::milliseconds every{10'000};
  std::string proc_root = "/proc";
  const Clock* clock = &Clock::real();
};

class UsageSampler {
 public:
  // gpu::Driver::look_around; calls back once, on any thread.
  using Look = std::function<void(std::function<void(std::vector<gpu::GpuLook>)>)>;
  using OnSample = std::function<void(const UsageSample&)>;

  UsageSampler(http::EventLoop& loop, UsageSamplerOptions options, Look look, OnSample on_sample);
  UsageSampler(const UsageSampler&) = delete;
  UsageSampler& operator=(const UsageSampler&) = delete;

  // The first sample comes soon.
  void start();

  [[nodiscard]] const UsageSample& latest() const { return latest_; }
  // Since the last sample; nothing before the first.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> age() const;

 private:
  void ask();
  void answered(const std::vector<gpu::GpuLook>& looks);

  http::EventLoop& loop_;
  const UsageSamplerOptions options_;
  Look look_;
  OnSample on_sample_;
  UsageSample latest_;
  std::optional<Clock::Steady> at_;
  http::Timer timer_;
  LoopGate gate_;
};

}  // namespace tessera::agent
