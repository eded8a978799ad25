#include "agent/usage_sampler.h"

#include <utility>

namespace tessera::agent {

UsageSampler::UsageSampler(http::EventLoop& loop, UsageSamplerOptions options, Look look, OnSample on_sample)
    : loop_(loop),
      options_(std::move(options)),
      look_(std::move(look)),
      on_sample_(std::move(on_sample)),
      gate_(loop) {}

void UsageSampler::start() {
  ask();
}

void UsageSampler::ask() {
  look_(gate_.wrap<std::vector<gpu::GpuLook>>(
      [this](const std::vector<gpu::GpuLook>& looks) { answered(looks); }));
}

void UsageSampler::answered(const std::vector<gpu::GpuLook>& looks) {
  latest_ =
      summarize(looks, [this](std::uint32_t pid) { return container_of_process(options_.proc_root, pid); });
  at_ = options_.clock->now();
  timer_ = loop_.after(options_.every, [this] { ask(); });
  on_sample_(latest_);
}

std::optional<std::chrono::nanoseconds> UsageSampler::age() const {
  return at_ ? std::optional<std::chrono::nanoseconds>(options_.clock->now() - *at_) : std::nullopt;
}

}  // namespace tessera::agent
