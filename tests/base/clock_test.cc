#include "base/clock.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using namespace std::chrono_literals;

TEST(ManualClock, ChangesOnlyWhenAdvanced) {
  ManualClock clock;
  const Clock::Steady start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(1500ms);
  EXPECT_EQ(clock.now() - start, 1500ms);
  EXPECT_EQ(rfc3339_micros(clock.wall()), "2026-01-01T00:00:01.500000Z");
}

TEST(ManualClock, SettingTheWallTimeDoesNotChangeTheSteadyTime) {
  ManualClock clock;
  const Clock::Steady start = clock.now();
  clock.set_wall(clock.wall() - 24h);
  EXPECT_EQ(clock.now(), start);
  EXPECT_EQ(rfc3339_seconds(clock.wall()), "2025-12-31T00:00:00Z");
}

TEST(Clock, RealSteadyTimeNeverGoesBack) {
  const Clock::Steady first = Clock::real().now();
  EXPECT_GE(Clock::real().now(), first);
}

TEST(Clock, FormatsTimesBeforeTheEpoch) {
  EXPECT_EQ(rfc3339_micros(Clock::Wall(-1us)), "1969-12-31T23:59:59.999999Z");
}

}  // namespace
}  // namespace tessera
