// agent/gpu/leftovers.h
//
// Finds processes of deleted pods that still use a GPU. After `kubectl delete --force`, the pod
// object is gone at once, but kubelet needs a few seconds to end the processes. Until then another
// pod must not get their memory.
//
//   Leftovers leftovers(node.loop, store.allocations(), {.proc_root = "/host/proc"});
//   leftovers.set_sampler([&](auto done) { driver.sample(std::move(done)); });
//   if (!leftovers.candidates().empty()) {
//     leftovers.find([](const Result<std::vector<Leftover>>& found) { ... });
//   }
//
// Considers only processes of pods that the agent allowed to start, not other processes of the machine.
//
// Use it on the event loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/devices/allocations.h"
#include "agent/devices/loop_gate.h"
#include "agent/gpu/decision.h"
#include "agent/gpu/usage_watch.h"
#include "http/event_loop.h"

namespace tessera::agent {

struct LeftoversOptions {
  std::string proc_root = "/proc";
  // Shorter than the 30 s that kubelet waits for PreStartContainer.
  std::chrono::milliseconds driver_deadline{3'000};
};

struct Leftover {
  Holding holding;  // of the deleted pod
  std::uint32_t pid = 0;
};

class Leftovers {
 public:
  // `loop` and `allocations` must outlive this object.
  Leftovers(http::EventLoop& loop, Allocations& allocations, LeftoversOptions options);
  Leftovers(const Leftovers&) = delete;
  Leftovers& operator=(const Leftovers&) = delete;

  // Sets how to read the processes on the GPUs. Before this call, find() times out.
  void set_sampler(UsageSampler::SampleGpus sample_gpus) { sample_gpus_ = std::move(sample_gpus); }

  // Returns the GPU shares of ended pods that may still have processes.
  [[nodiscard]] std::vector<Holding> candidates() const;

  using FindDone = Done<Result<std::vector<Leftover>>>;
  // Reads the processes on all GPUs, and later calls `done` once with the candidates that have a process.
  // The result is kTimeout if the driver does not answer.
  void find(FindDone done);

 private:
  struct Search;
  void finish(const std::weak_ptr<Search>& search, const Result<std::vector<Leftover>>& found);
  [[nodiscard]] std::vector<Leftover> find_in(const std::vector<gpu::GpuSample>& samples);

  http::EventLoop& loop_;
  Allocations& allocations_;
  const LeftoversOptions options_;
  UsageSampler::SampleGpus sample_gpus_;
  std::vector<std::shared_ptr<Search>> open_;
  LoopGate gate_;
};

}  // namespace tessera::agent
