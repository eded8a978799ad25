// base/clock.h
//
// Time as something that is handed in, so that a test can say what time it is.
#pragma once

#include <chrono>
#include <string>

namespace tessera {

class Clock {
 public:
  using Steady = std::chrono::steady_clock::time_point;
  using Wall = std::chrono::system_clock::time_point;

  virtual ~Clock() = default;

  // Never goes back: for time-outs and durations.
  [[nodiscard]] virtual Steady now() const = 0;

  // What a calendar says: for what other machines or people read.
  [[nodiscard]] virtual Wall wall() const = 0;

  // The machine's clock; lives as long as the process.
  static const Clock& real();
};

// A clock that stands still until it is told otherwise. Starts at 2026-01-01T00:00:00Z. One thread.
class ManualClock final : public Clock {
 public:
  ManualClock();

  [[nodiscard]] Steady now() const override { return steady_; }
  [[nodiscard]] Wall wall() const override { return wall_; }

  // Both clocks go on.
  void advance(std::chrono::nanoseconds by);

  // Somebody sets the calendar; durations do not notice.
  void set_wall(Wall wall) { wall_ = wall; }

 private:
  Steady steady_;
  Wall wall_;
};

// "2026-11-15T23:02:44.123456Z": the form of Kubernetes' MicroTime, always six digits and UTC.
std::string rfc3339_micros(Clock::Wall time);

// "2026-11-15T23:02:44Z": the form of Kubernetes' Time.
std::string rfc3339_seconds(Clock::Wall time);

}  // namespace tessera
