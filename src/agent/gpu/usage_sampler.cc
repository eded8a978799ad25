#include "agent/gpu/usage_sampler.h"

#include <algorithm>
#include <utility>

namespace tessera::agent {

namespace {

constexpr std::chrono::milliseconds kSoon{1'000};

}  // namespace

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
  // A driver that has just been opened knows no GPU yet.
  const auto wait = looks.empty() ? std::min(options_.every, kSoon) : options_.every;
  timer_ = loop_.after(wait, [this] { ask(); });
  on_sample_(latest_);
}

std::optional<std::chrono::nanoseconds> UsageSampler::age() const {
  return at_ ? std::optional<std::chrono::nanoseconds>(options_.clock->now() - *at_) : std::nullopt;
}

}  // namespace tessera::agent
