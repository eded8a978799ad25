#include "dgx1_stream.h"

#include <gtest/gtest.h>

#include "machines.h"
#include "topology/set_search.h"

namespace tessera::topology {
namespace {

constexpr unsigned kSeeds = 8;

TEST(Dgx1Stream, RingReachesNineTenthsOfIdealAndRarelyCrossesPcie) {
  const SetTables tables(dgx1_volta());
  const Dgx1Stream stream(tables.topology());
  const auto ring = stream.mean(
      [&](GpuMask free, unsigned count) { return choose_ring(tables, {.free = free, .count = count})->gpus; },
      kSeeds);
  RecordProperty("ring_of_ideal", std::to_string(ring.ring_of_ideal));
  RecordProperty("with_pcie_hop", std::to_string(ring.with_pcie_hop));
  EXPECT_GE(ring.ring_of_ideal, 0.90) << "hops " << ring.with_pcie_hop;
  EXPECT_LE(ring.with_pcie_hop, 0.16);
  EXPECT_GE(ring.at_ideal, 0.83);
}

TEST(Dgx1Stream, RingBeatsTheOtherPoliciesAndAllBeatSimple) {
  const SetTables tables(dgx1_volta());
  const Dgx1Stream stream(tables.topology());
  const auto by = [&](auto choose) {
    return stream.mean(
        [&](GpuMask free, unsigned count) { return choose(tables, {.free = free, .count = count})->gpus; },
        2);
  };
  const auto ring = by(choose_ring);
  const auto best_effort = by(choose_best_effort);
  const auto prim = by(choose_prim);
  const auto simple = by(choose_simple);
  EXPECT_GT(ring.ring_of_ideal, best_effort.ring_of_ideal + 0.05);
  EXPECT_GT(best_effort.ring_of_ideal, simple.ring_of_ideal + 0.05);
  // docs/policies.md states these numbers.
  EXPECT_NEAR(ring.ring_of_ideal, 0.906, 0.005);
  EXPECT_NEAR(prim.ring_of_ideal, 0.709, 0.005);
  EXPECT_GT(prim.ring_of_ideal, simple.ring_of_ideal);
  // The published numbers for these two policies. They show that the job stream is the same.
  EXPECT_NEAR(best_effort.ring_of_ideal, 0.801, 0.01);
  EXPECT_NEAR(simple.ring_of_ideal, 0.679, 0.01);
}

}  // namespace
}  // namespace tessera::topology
