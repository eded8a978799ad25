// kube/backoff.h
//
// Growing waits with jitter, so that a thousand clients of an API server that comes back do not call at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace tessera::kube {

// Any source of random numbers over the whole range; a test gives its own.
using Random = std::function<std::uint64_t()>;

// Seeded from the machine; each caller gets a sequence of its own. Not for secrets. One thread.
Random default_random();

// An even pick of [0, bound); 0 for a bound of 0.
std::uint64_t below(const Random& random, std::uint64_t bound);

struct BackoffOptions {
  std::chrono::milliseconds first{100};
  std::chrono::milliseconds cap{30'000};
};

class Backoff {
 public:
  Backoff(BackoffOptions options, Random random) : options_(options), random_(std::move(random)) {}

  // How long to wait this time: between half and the whole of a span that doubles from call to call up to the
  // cap.
  std::chrono::milliseconds next();

  // It worked: start over.
  void reset() { failures_ = 0; }
  [[nodiscard]] int failures() const { return failures_; }

 private:
  BackoffOptions options_;
  Random random_;
  int failures_ = 0;
};

}  // namespace tessera::kube
