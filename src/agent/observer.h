// agent/observer.h
//
// What people and machines can see of the agent: who uses what (sampled), who takes more than it asked for,
// whatever is asked over HTTP.
//
// On the event loop's thread, but for metrics().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/allocation.h"
#include "agent/memory_watch.h"
#include "agent/metrics.h"
#include "agent/readings.h"
#include "agent/usage_sampler.h"
#include "gpu/driver_state.h"
#include "http/server.h"
#include "kube/client.h"

namespace tessera::agent {

struct ObserverOptions {
  std::string node;
  MemoryRules memory{};
  UsageSamplerOptions sampler{};
};

class Observer {
 public:
  // What others know, asked for when it is needed.
  struct Sources {
    std::function<std::string()> not_ready{};  // what is missing until pods can be served; empty: nothing
    std::function<std::shared_ptr<const gpu::DriverState>()> state{};  // null before the first
    std::function<std::vector<Allocation>()> allocations{};
    std::function<std::vector<const alloc::PodSpec*>()> pods{};  // of this node, that ask for GPUs
    // Adds the readings of all that is not observed here; is told how old the last sample is.
    std::function<void(std::optional<std::chrono::nanoseconds> sample_age, Readings&)> more{};
  };

  // `loop` and `client` must live longer.
  Observer(http::EventLoop& loop, kube::Client& client, ObserverOptions options, MemoryWatch::Tell tell,
           Sources sources);
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  // Begins to ask the driver.
  void start(UsageSampler::Look look);

  [[nodiscard]] Metrics& metrics() { return metrics_; }

  // /healthz, /readyz, /metrics, /allocations and /version.
  void handle(http::Request& request, http::Reply reply) const;

  // The bodies of /metrics and /allocations.
  [[nodiscard]] std::string metrics_text() const;
  [[nodiscard]] std::string allocations_text() const;

 private:
  [[nodiscard]] std::vector<MemoryUse> uses(const UsageSample& sample, alloc::Unit unit) const;
  void sampled(const UsageSample& sample);

  http::EventLoop& loop_;
  const ObserverOptions options_;
  const Sources sources_;
  Metrics metrics_;
  MemoryWatch memory_watch_;
  std::optional<UsageSampler> sampler_;
};

}  // namespace tessera::agent
