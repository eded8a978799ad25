// base/clock.h
//
// Clock interface. Code that needs the time takes a Clock, so that tests can control the time.
#pragma once

#include <chrono>
#include <string>

namespace tessera {

class Clock {
 public:
  using Steady = std::chrono::steady_clock::time_point;
  using Wall = std::chrono::system_clock::time_point;

  virtual ~Clock() = default;

  // Monotonic time, for timeouts and durations.
  [[nodiscard]] virtual Steady now() const = 0;

  // Calendar time, for timestamps that people or other machines read.
  [[nodiscard]] virtual Wall wall() const = 0;

  // The system clock. Valid for the lifetime of the process.
  static const Clock& real();
};

// A clock for tests: time changes only through advance() and set_wall(). Starts at
// 2026-01-01T00:00:00Z. Not thread-safe.
class ManualClock final : public Clock {
 public:
  ManualClock();

  [[nodiscard]] Steady now() const override { return steady_; }
  [[nodiscard]] Wall wall() const override { return wall_; }

  // Moves both clocks forward.
  void advance(std::chrono::nanoseconds by);

  // Sets the calendar time only; now() does not change.
  void set_wall(Wall wall) { wall_ = wall; }

 private:
  Steady steady_;
  Wall wall_;
};

// Formats a time as Kubernetes' MicroTime: "2026-11-15T23:02:44.123456Z", always UTC, with six
// fractional digits.
std::string rfc3339_micros(Clock::Wall time);

// Formats a time as Kubernetes' Time: "2026-11-15T23:02:44Z".
std::string rfc3339_seconds(Clock::Wall time);

}  // namespace tessera
