// kube/backoff.h
//
// Exponential backoff with jitter, so that a thousand clients do not call an API server at the same
// time when it becomes available again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace tessera::kube {

// A source of random numbers over the full range.
using Random = std::function<std::uint64_t()>;

// Returns a generator with a random seed. Not for secrets. Not thread-safe.
Random default_random();

// Returns a uniformly distributed number in [0, bound), or 0 if `bound` is 0.
std::uint64_t below(const Random& random, std::uint64_t bound);

struct BackoffOptions {
  std::chrono::milliseconds first{100};
  std::chrono::milliseconds cap{30'000};
};

class Backoff {
 public:
  Backoff(BackoffOptions options, Random random) : options_(options), random_(std::move(random)) {}

  // Returns how long to wait before the next attempt: a random time between half an interval and
  // the whole interval. The interval starts at `first` and doubles with each call, up to `cap`.
  std::chrono::milliseconds next();

  // Starts over, after a success.
  void reset() { failures_ = 0; }
  [[nodiscard]] int failures() const { return failures_; }

 private:
  BackoffOptions options_;
  Random random_;
  int failures_ = 0;
};

}  // namespace tessera::kube
