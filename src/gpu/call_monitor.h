// gpu/call_monitor.h
//
// Records which driver call is in progress and since when. Other threads can then detect a call
// that never returns, and report its name. The driver thread writes, any thread reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/clock.h"

namespace tessera::gpu {

class CallMonitor {
 public:
  struct Running {
    std::string_view call;
    Clock::Steady since;
  };
  struct Counts {
    std::uint64_t calls = 0;
    std::uint64_t failures = 0;  // errors, except harmless ones such as "not supported"
  };

  // Mark the start and the end of a call. Calls do not nest. `call` must be a string literal.
  void begin(std::string_view call) {
    const std::lock_guard lock(mutex_);
    running_ = Running{.call = call, .since = Clock::real().now()};
  }
  void end(bool failed) {
    const std::lock_guard lock(mutex_);
    running_.reset();
    ++counts_.calls;
    counts_.failures += failed ? 1 : 0;
  }

  [[nodiscard]] std::optional<Running> running() const {
    const std::lock_guard lock(mutex_);
    return running_;
  }
  [[nodiscard]] Counts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Running> running_;
  Counts counts_;
};

}  // namespace tessera::gpu
