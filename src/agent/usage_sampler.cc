#include "agent/usage_sampler.h"

#include <utility>

namespace tessera::agent {

struct UsageSampler::Core : std::enable_shared_from_this<Core> {
  Core(http::EventLoop& owner, UsageSamplerOptions settings, Look ask, OnSample tell)
      : loop(owner), options(std::move(settings)), look(std::move(ask)), on_sample(std::move(tell)) {}

  void ask();
  void answered(const std::vector<gpu::GpuLook>& looks);

  http::EventLoop& loop;
  const UsageSamplerOptions options;
  Look look;
  OnSample on_sample;
  UsageSample latest;
  std::optional<Clock::Steady> at;
  http::Timer timer;
};

void UsageSampler::Core::ask() {
  look([&to = loop, weak = weak_from_this()](std::vector<gpu::GpuLook> looks) {
    to.post([weak, looks = std::move(looks)] {
      if (const auto core = weak.lock()) {
        core->answered(looks);
      }
    });
  });
}

void UsageSampler::Core::answered(const std::vector<gpu::GpuLook>& looks) {
  latest =
      summarize(looks, [this](std::uint32_t pid) { return container_of_process(options.proc_root, pid); });
  at = options.clock->now();
  timer = loop.after(options.every, [this] { ask(); });
  on_sample(latest);
}

UsageSampler::UsageSampler(http::EventLoop& loop, UsageSamplerOptions options, Look look, OnSample on_sample)
    : core_(std::make_shared<Core>(loop, std::move(options), std::move(look), std::move(on_sample))) {}

UsageSampler::~UsageSampler() {
  core_->timer.cancel();
}

void UsageSampler::start() {
  core_->ask();
}

const UsageSample& UsageSampler::latest() const {
  return core_->latest;
}

std::optional<std::chrono::nanoseconds> UsageSampler::age() const {
  return core_->at ? std::optional(core_->options.clock->now() - *core_->at) : std::nullopt;
}

}  // namespace tessera::agent
