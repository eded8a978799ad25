// The bounded search on machines with more than 16 GPUs.
#include "topology/wide_search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "machines.h"

namespace tessera::topology {
namespace {

// Groups of four GPUs with two NVLinks per pair, and only PCIe between the groups.
Topology groups_of_four(unsigned gpus) {
  Topology box(gpus);
  for (unsigned a = 0; a < gpus; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      box.set_link(a, b, nvlink(a / 4 == b / 4 ? 2 : 0, 3, PciePath::kNode));
    }
  }
  two_sockets(box);
  return box;
}

TEST(WideSearch, ReportsThatItIsNotExact) {
  const SetTables tables(nvswitch_box(20, 18, 5));
  EXPECT_FALSE(tables.exact());
  EXPECT_FALSE(choose_ring(tables, {.free = tables.topology().all(), .count = 4})->exact);
  EXPECT_FALSE(choose_best_effort(tables, {.free = tables.topology().all(), .count = 4})->exact);
}

TEST(WideSearch, FindsTheGroupThatIsEntirelyFree) {
  for (const unsigned gpus : {17U, 24U, 64U}) {
    const SetTables tables(groups_of_four(gpus));
    // One GPU of every group except the third is busy.
    GpuMask free = tables.topology().all();
    for (unsigned gpu = 0; gpu < gpus; gpu += 4) {
      free &= gpu == 8 ? free : ~gpu_bit(gpu);
    }
    const auto four = choose_ring(tables, {.free = free, .count = 4});
    ASSERT_TRUE(four);
    EXPECT_EQ(gpu_list(four->gpus), "8-11");
    EXPECT_EQ(four->ring_mbps, 40'000U);
    EXPECT_EQ(four->ideal_mbps, 40'000U);
    const auto three = choose_ring(tables, {.free = free, .count = 3});
    EXPECT_EQ(gpu_list(three->gpus), "1-3");  // keeps the free group whole
    EXPECT_EQ(gpu_list(choose_best_effort(tables, {.free = free, .count = 4})->gpus), "8-11");
  }
}

TEST(WideSearch, ChoosesTheRequiredGpusAndOnlyFreeGpus) {
  const SetTables tables(groups_of_four(64));
  const GpuMask free = 0x0f0f'0f0f'0f0f'0f0fULL;
  for (unsigned count = 2; count <= 32; ++count) {
    for (const auto choose : {choose_ring, choose_best_effort, choose_prim, choose_simple}) {
      const auto choice =
          choose(tables, {.free = free, .count = count, .required = gpu_bit(32) | gpu_bit(0)});
      ASSERT_TRUE(choice);
      EXPECT_EQ(gpu_count(choice->gpus), count);
      EXPECT_EQ(choice->gpus & ~free, 0U);
      EXPECT_EQ(choice->gpus & (gpu_bit(32) | gpu_bit(0)), gpu_bit(32) | gpu_bit(0));
    }
  }
}

TEST(WideSearch, AgreesWithTheExactSearchOnTheBestRing) {
  // The same 16 GPUs, alone and with two additional GPUs that are never free.
  Topology small = pcie_tree(16);
  Topology large(18);
  for (unsigned a = 0; a < 18; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      large.set_link(a, b, a < 16 ? small.link(a, b) : Link{.path = PciePath::kSys});
    }
  }
  const SetTables exact(small);
  const SetTables wide(large);
  for (unsigned count = 2; count <= 16; ++count) {
    for (const GpuMask free : {GpuMask{0xffff}, GpuMask{0xf7ef}, GpuMask{0x7777}}) {
      const auto one = choose_ring(exact, {.free = free, .count = count});
      const auto two = choose_ring(wide, {.free = free, .count = count});
      EXPECT_EQ(one.has_value(), two.has_value());
      EXPECT_EQ(one ? one->ring_mbps : 0, two ? two->ring_mbps : 0) << count << " of " << gpu_list(free);
    }
  }
}

// A node can publish links for which the search would take minutes.
TEST(WideSearch, UsesNoMoreStepsThanItsBudgetOnForgedLinks) {
  const SetTables tables(forged(64));
  const SetQuery query{.free = tables.topology().all(), .count = 24};
  for (const unsigned steps : {0U, 100U, 10'000U, kWideSteps}) {
    StepBudget budget(steps);
    const GpuMask set = wide_ring(tables, query, budget);
    EXPECT_EQ(gpu_count(set), 24U);
    EXPECT_EQ(budget.left(), 0U) << "the search would take more than " << steps << " steps";
  }
  StepBudget budget(kWideSteps);
  const std::vector<Mbps> ideals = wide_ideals(tables, budget);
  EXPECT_EQ(budget.left(), 0U);
  EXPECT_EQ(ideals.size(), 65U);
  EXPECT_GE(*std::ranges::min_element(ideals.begin() + 2, ideals.end()), 18'000U);
}

TEST(WideSearch, FindsALowerBoundOfTheRingWhenTheBudgetEnds) {
  const SetTables tables(forged(64));
  const GpuMask set = first_gpus(40);
  StepBudget none(0);
  StepBudget enough(10 * kWideSteps);
  const Mbps slowest = tables.ring_mbps(set, none);
  const Mbps found = tables.ring_mbps(set, enough);
  EXPECT_GT(slowest, 0U);
  EXPECT_LE(slowest, found);
  EXPECT_GT(enough.left(), 0U) << "a level has a limit of its own";
}

// The machines that exist are regular. Their queries end before the budget does.
TEST(WideSearch, HasStepsLeftOnRegularMachines) {
  for (const Topology& box : {nvswitch_box(64, 18, 5), pcie_tree(24), groups_of_four(32)}) {
    const SetTables tables(box);
    StepBudget budget(kWideSteps);
    static_cast<void>(wide_ring(tables, {.free = box.all(), .count = 8}, budget));
    EXPECT_GT(budget.left(), 0U) << box.size();
  }
}

}  // namespace
}  // namespace tessera::topology
