#include "topology/set_search.h"

#include <gtest/gtest.h>

#include "machines.h"

namespace tessera::topology {
namespace {

TEST(RingSearch, TakesTheBestRingOfAnIdleDgx1) {
  const SetTables tables(dgx1_volta());
  const auto choice = choose_ring(tables, {.free = 0xff, .count = 5});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->ring_mbps, 20'000U);
  EXPECT_EQ(choice->ideal_mbps, 20'000U);
  EXPECT_TRUE(choice->exact);
}

TEST(BestEffort, KeepsThePartitionWholeRatherThanTakingTheBestPair) {
  const SetTables tables(dgx1_volta());
  EXPECT_EQ(choose_best_effort(tables, {.free = 0xff, .count = 2})->gpus, 0b1001U);
  EXPECT_EQ(choose_best_effort(tables, {.free = 0xff, .count = 2, .required = 0b1'0000})->gpus, 0b1001'0000U);
}

}  // namespace
}  // namespace tessera::topology
