#include "base/clock.h"

#include <fmt/core.h>

namespace tessera {

namespace {

class RealClock final : public Clock {
 public:
  [[nodiscard]] Steady now() const override { return std::chrono::steady_clock::now(); }
  [[nodiscard]] Wall wall() const override { return std::chrono::system_clock::now(); }
};

std::string date_and_time(std::chrono::sys_seconds time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

}  // namespace

const Clock& Clock::real() {
  static const RealClock clock;
  return clock;
}

ManualClock::ManualClock()
    : steady_(std::chrono::hours(1)),
      wall_(std::chrono::sys_days(std::chrono::year(2026) / std::chrono::January / 1)) {}

void ManualClock::advance(std::chrono::nanoseconds by) {
  steady_ += std::chrono::duration_cast<Steady::duration>(by);
  wall_ += std::chrono::duration_cast<Wall::duration>(by);
}

std::string rfc3339_micros(Clock::Wall time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(time - seconds);
  return fmt::format("{}.{:06}Z", date_and_time(seconds), micros.count());
}

std::string rfc3339_seconds(Clock::Wall time) {
  return date_and_time(std::chrono::floor<std::chrono::seconds>(time)) + "Z";
}

}  // namespace tessera
