// agent/gpu/usage_watch.h
//
// Who uses what of the GPUs (sampled), and who takes more than it asked for.
//
// On the event loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/allocation.h"
#include "agent/devices/checkpoint.h"
#include "agent/devices/readings.h"
#include "agent/gpu/foreign_use.h"
#include "agent/gpu/memory_watch.h"
#include "agent/gpu/usage_sampler.h"
#include "gpu/driver_state.h"
#include "kube/client.h"

namespace tessera::agent {

struct UsageWatchOptions {
  std::string node;
  MemoryRules memory{};
  UsageSamplerOptions sampler{};
  // Whether all pods of the node have been told: before, every pod looks as if it asked for nothing.
  std::function<bool()> pods_known = [] { return true; };
  // Of pods that ask us for nothing: their names, and what kubelet gave them of other plugins.
  MemoryWatch::NameOfPod name_of_pod{};
  std::function<Result<Checkpoint>()> checkpoint{};
};

class UsageWatch {
 public:
  // What others know, asked for when it is needed.
  struct Sources {
    std::function<std::shared_ptr<const gpu::DriverState>()> state{};  // null before the first
    std::function<std::vector<Allocation>()> allocations{};            // of GPUs
    std::function<std::vector<const alloc::PodSpec*>()> pods{};        // of this node, that ask for GPUs
  };

  // `loop` and `client` must live longer.
  UsageWatch(http::EventLoop& loop, kube::Client& client, UsageWatchOptions options, MemoryWatch::Tell tell,
             Sources sources);
  UsageWatch(const UsageWatch&) = delete;
  UsageWatch& operator=(const UsageWatch&) = delete;

  // Begins to ask the driver.
  void start(UsageSampler::Look look);

  // Of GPUs and of containers that use them; none before the driver has said anything.
  void add_readings(Readings& readings) const;
  // Since the last sample; nothing before the first.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> sample_age() const;

 private:
  [[nodiscard]] std::vector<MemoryUse> uses(const UsageSample& sample,
                                            const alloc::Inventory& inventory) const;
  [[nodiscard]] std::vector<ForeignHolder> holders_elsewhere(const alloc::Inventory& inventory) const;
  void sampled(const UsageSample& sample);

  http::EventLoop& loop_;
  const UsageWatchOptions options_;
  const Sources sources_;
  MemoryWatch memory_watch_;
  std::optional<UsageSampler> sampler_;
};

}  // namespace tessera::agent
