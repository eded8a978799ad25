#include "agent/gpu/usage_watch.h"

#include <utility>

#include "agent/gpu/gpu_readings.h"

namespace tessera::agent {

UsageWatch::UsageWatch(http::EventLoop& loop, kube::Client& client, UsageWatchOptions options,
                       MemoryWatch::Tell tell, Sources sources)
    : loop_(loop),
      options_(std::move(options)),
      sources_(std::move(sources)),
      memory_watch_(client, options_.node, options_.memory, std::move(tell)) {}

void UsageWatch::start(UsageSampler::Look look) {
  sampler_.emplace(loop_, options_.sampler, std::move(look),
                   [this](const UsageSample& sample) { sampled(sample); });
  sampler_->start();
}

std::vector<MemoryUse> UsageWatch::uses(const UsageSample& sample, alloc::Unit unit) const {
  return memory_uses(sample, sources_.allocations(), sources_.pods(), unit);
}

void UsageWatch::sampled(const UsageSample& sample) {
  if (const auto state = sources_.state()) {
    memory_watch_.look_at(uses(sample, state->inventory.unit), state->inventory);
  }
}

void UsageWatch::add_readings(Readings& readings) const {
  if (const auto state = sources_.state()) {
    const UsageSample none;
    const UsageSample& sample = sampler_ ? sampler_->latest() : none;
    const std::vector<MemoryUse> now = uses(sample, state->inventory.unit);
    add_gpus(readings, *state, sample, now);
    add_containers(readings, *state, now, memory_watch_);
  }
}

std::optional<std::chrono::nanoseconds> UsageWatch::sample_age() const {
  return sampler_ ? sampler_->age() : std::nullopt;
}

}  // namespace tessera::agent
