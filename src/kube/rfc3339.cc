#include "kube/rfc3339.h"

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/strings.h"

namespace tessera::kube {

namespace {

// Parses a text piece by piece. After the first error, good() stays false.
class Pieces {
 public:
  explicit Pieces(std::string_view text) : rest_(text) {}

  int number(std::size_t digits) {
    if (rest_.size() < digits) {
      good_ = false;
      return 0;
    }
    int value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      if (rest_[i] < '0' || rest_[i] > '9') {
        good_ = false;
        return 0;
      }
      value = value * 10 + (rest_[i] - '0');
    }
    rest_.remove_prefix(digits);
    return value;
  }

  // Reads and returns one of the characters of `any`.
  char one_of(std::string_view any) {
    if (rest_.empty() || any.find(rest_.front()) == std::string_view::npos) {
      good_ = false;
      return '\0';
    }
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  // Reads ".123" as microseconds; returns 0 if there is no dot.
  std::chrono::microseconds fraction() {
    if (rest_.empty() || rest_.front() != '.') {
      return std::chrono::microseconds(0);
    }
    rest_.remove_prefix(1);
    std::int64_t micros = 0;
    int digits = 0;
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      if (digits < 6) {
        micros = micros * 10 + (rest_.front() - '0');
      }
      ++digits;
      rest_.remove_prefix(1);
    }
    good_ = good_ && digits > 0;
    for (; digits < 6; ++digits) {
      micros *= 10;
    }
    return std::chrono::microseconds(micros);
  }

  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool done() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

std::optional<Clock::Wall> parse(std::string_view text) {
  using namespace std::chrono;
  Pieces pieces(text);
  const int year_number = pieces.number(4);
  pieces.one_of("-");
  const int month_number = pieces.number(2);
  pieces.one_of("-");
  const int day_number = pieces.number(2);
  pieces.one_of("Tt");
  const int hour = pieces.number(2);
  pieces.one_of(":");
  const int minute = pieces.number(2);
  pieces.one_of(":");
  const int second = pieces.number(2);
  const microseconds fraction = pieces.fraction();
  minutes offset(0);
  const char zone = pieces.one_of("Zz+-");
  if (zone == '+' || zone == '-') {
    const int zone_hours = pieces.number(2);
    pieces.one_of(":");
    const int zone_minutes = pieces.number(2);
    if (zone_hours > 23 || zone_minutes > 59) {
      return std::nullopt;
    }
    offset = hours(zone_hours) + minutes(zone_minutes);
    if (zone == '-') {
      offset = -offset;
    }
  }
  const year_month_day date{year(year_number), month(static_cast<unsigned>(month_number)),
                            day(static_cast<unsigned>(day_number))};
  // Second 60 is allowed: it is a leap second.
  if (!pieces.done() || !date.ok() || year_number < 1970 || year_number > 2261 || hour > 23 || minute > 59 ||
      second > 60) {
    return std::nullopt;
  }
  return time_point_cast<Clock::Wall::duration>(sys_days(date) + hours(hour) + minutes(minute) +
                                                seconds(second) + fraction - offset);
}

}  // namespace

Result<Clock::Wall> parse_rfc3339(std::string_view text) {
  if (const auto time = parse(text)) {
    return *time;
  }
  return fail(ErrorCode::kInvalid, in_quotes(text) + " is not a time like 2026-11-15T23:02:44Z");
}

}  // namespace tessera::kube
