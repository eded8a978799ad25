#include "agent/gpu/usage_watch.h"

#include <algorithm>

#include "agent/gpu/gpu_kind.h"
#include "agent/gpu/gpu_readings.h"

namespace tessera::agent {

namespace {

// The time to the next sample after one without GPUs.
constexpr std::chrono::milliseconds kEmptyRetry{1'000};

}  // namespace

UsageSampler::UsageSampler(http::EventLoop& loop, UsageSamplerOptions options, SampleGpus sample_gpus,
                           OnSample on_sample)
    : loop_(loop),
      options_(std::move(options)),
      sample_gpus_(std::move(sample_gpus)),
      on_sample_(std::move(on_sample)),
      gate_(loop) {}

void UsageSampler::start() {
  request_sample();
}

void UsageSampler::request_sample() {
  sample_gpus_(gate_.wrap<std::vector<gpu::GpuSample>>(
      [this](const std::vector<gpu::GpuSample>& samples) { on_samples(samples); }));
}

void UsageSampler::on_samples(const std::vector<gpu::GpuSample>& samples) {
  latest_ =
      summarize(samples, [this](std::uint32_t pid) { return container_of_process(options_.proc_root, pid); });
  sampled_at_ = options_.clock->now();
  // A driver that was just opened has not listed its GPUs yet.
  const auto wait = samples.empty() ? std::min(options_.every, kEmptyRetry) : options_.every;
  timer_ = loop_.after(wait, [this] { request_sample(); });
  on_sample_(latest_);
}

std::optional<std::chrono::nanoseconds> UsageSampler::age() const {
  return sampled_at_ ? std::optional<std::chrono::nanoseconds>(options_.clock->now() - *sampled_at_)
                     : std::nullopt;
}

UsageWatch::UsageWatch(const NodeContext& node, const Allocations& allocations, UsageWatchOptions options)
    : node_(node),
      allocations_(allocations),
      options_(std::move(options)),
      memory_watch_(node, options_.memory) {}

void UsageWatch::start(UsageSampler::SampleGpus sample_gpus) {
  sampler_.emplace(node_.loop, options_.sampler, std::move(sample_gpus),
                   [this](const UsageSample& sample) { sampled(sample); });
  sampler_->start();
}

std::vector<MemoryUse> UsageWatch::uses(const UsageSample& sample, const alloc::Inventory& inventory) const {
  // kubelet writes its checkpoint before a container starts, so the checkpoint names every
  // container that uses a GPU through another plugin. Read it at most once per sample; most nodes
  // never need it.
  std::optional<std::vector<ForeignHolder>> holders;
  const auto allocated_elsewhere = [&](const ContainerName& who, const std::string& gpu) {
    if (!holders) {
      const Result<Checkpoint> checkpoint = node_.checkpoints.read();
      holders = checkpoint ? foreign_holders(*checkpoint, inventory) : std::vector<ForeignHolder>{};
    }
    return std::ranges::any_of(*holders, [&](const ForeignHolder& holder) {
      return holder.pod_uid == who.pod_uid && holder.gpu == gpu &&
             (who.container.empty() || holder.container == who.container);
    });
  };
  return memory_uses(sample, allocations_.all(), gpu_pods(node_.pods), inventory.unit, allocated_elsewhere);
}

void UsageWatch::sampled(const UsageSample& sample) {
  // Before all pods are listed, every container looks as if it requested no GPU.
  if (state_ && node_.pods.is_synced()) {
    memory_watch_.check(uses(sample, state_->inventory), state_->inventory);
  }
}

void UsageWatch::add_readings(Readings& readings) const {
  if (state_) {
    const UsageSample none;
    const UsageSample& sample = sampler_ ? sampler_->latest() : none;
    const std::vector<MemoryUse> now = uses(sample, state_->inventory);
    add_gpus(readings, *state_, sample, now);
    add_containers(readings, *state_, now, memory_watch_);
  }
}

std::optional<std::chrono::nanoseconds> UsageWatch::sample_age() const {
  return sampler_ ? sampler_->age() : std::nullopt;
}

}  // namespace tessera::agent
