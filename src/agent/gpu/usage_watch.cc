#include "agent/gpu/usage_watch.h"

#include <algorithm>
#include <utility>

#include "agent/gpu/gpu_readings.h"

namespace tessera::agent {

UsageWatch::UsageWatch(http::EventLoop& loop, kube::Client& client, UsageWatchOptions options,
                       MemoryWatch::Tell tell, Sources sources)
    : loop_(loop),
      options_(std::move(options)),
      sources_(std::move(sources)),
      memory_watch_(client, options_.node, options_.memory, std::move(tell), options_.name_of_pod) {}

void UsageWatch::start(UsageSampler::Look look) {
  sampler_.emplace(loop_, options_.sampler, std::move(look),
                   [this](const UsageSample& sample) { sampled(sample); });
  sampler_->start();
}

std::vector<ForeignHolder> UsageWatch::holders_elsewhere(const alloc::Inventory& inventory) const {
  const Result<Checkpoint> checkpoint =
      options_.checkpoint ? options_.checkpoint() : fail(ErrorCode::kNotFound, "");
  return checkpoint ? foreign_holders(*checkpoint, inventory) : std::vector<ForeignHolder>{};
}

std::vector<MemoryUse> UsageWatch::uses(const UsageSample& sample, const alloc::Inventory& inventory) const {
  // kubelet writes its file before a container starts: who uses a GPU stands in it. Read at most once, and on
  // most nodes never.
  std::optional<std::vector<ForeignHolder>> holders;
  const auto given_elsewhere = [&](const ContainerName& who, const std::string& gpu) {
    if (!holders) {
      holders = holders_elsewhere(inventory);
    }
    return std::ranges::any_of(*holders, [&](const ForeignHolder& holder) {
      return holder.pod_uid == who.pod_uid && holder.gpu == gpu &&
             (who.container.empty() || holder.container == who.container);
    });
  };
  return memory_uses(sample, sources_.allocations(), sources_.pods(), inventory.unit, given_elsewhere);
}

void UsageWatch::sampled(const UsageSample& sample) {
  if (const auto state = sources_.state(); state && options_.pods_known()) {
    memory_watch_.look_at(uses(sample, state->inventory), state->inventory);
  }
}

void UsageWatch::add_readings(Readings& readings) const {
  if (const auto state = sources_.state()) {
    const UsageSample none;
    const UsageSample& sample = sampler_ ? sampler_->latest() : none;
    const std::vector<MemoryUse> now = uses(sample, state->inventory);
    add_gpus(readings, *state, sample, now);
    add_containers(readings, *state, now, memory_watch_);
  }
}

std::optional<std::chrono::nanoseconds> UsageWatch::sample_age() const {
  return sampler_ ? sampler_->age() : std::nullopt;
}

}  // namespace tessera::agent
