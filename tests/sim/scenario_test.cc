#include "sim/scenario.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "sim/random.h"
#include "sim/synthetic.h"

namespace tessera::sim {
namespace {

using testing::ElementsAre;

TEST(Random, IsEqualOnEveryMachine) {
  // Known values: every machine and compiler must produce the same.
  Random random(42);
  EXPECT_EQ(random.next(), 1546998764402558742U);
  EXPECT_EQ(random.next(), 6990951692964543102U);
  std::vector<int> items{1, 2, 3, 4, 5, 6, 7, 8};
  Random(7).shuffle(items);
  EXPECT_THAT(items, ElementsAre(7, 1, 3, 4, 5, 8, 2, 6));
}

TEST(Random, IsUniform) {
  Random random(1);
  std::vector<int> counts(6);
  for (int i = 0; i < 60000; ++i) {
    ++counts[random.below(6)];
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 10000, 400);
  }
}

Trace four_gpus(std::vector<TracePod> pods) {
  return {.nodes = {{.name = "a", .gpus = 2}, {.name = "b", .gpus = 2}}, .pods = std::move(pods)};
}

std::int64_t requested(const Trace& trace, const Scenario& scenario) {
  std::int64_t sum = 0;
  for (const std::uint32_t pod : scenario.pods) {
    sum += trace.pods[pod].requested_gpu_milli();
  }
  return sum;
}

TEST(Scenario, AddsPodsUntilTheNextWouldExceedTheLoad) {
  const Trace trace = four_gpus({{.name = "p", .gpus = 1, .gpu_milli = 300}, {.name = "q"}});
  const Scenario scenario = draw_scenario(trace, 1, 1300);
  // 17 x 300 = 5100 of 5200; the next would be 5400.
  EXPECT_EQ(requested(trace, scenario), 5100);
  // The pods of the trace are first, each once.
  EXPECT_EQ(std::set(scenario.pods.begin(), scenario.pods.begin() + 2), (std::set<std::uint32_t>{0, 1}));
  EXPECT_EQ(std::set(scenario.nodes.begin(), scenario.nodes.end()), (std::set<std::uint32_t>{0, 1}));
}

TEST(Scenario, DropsPodsUntilTheLoadIsNotExceeded) {
  std::vector<TracePod> pods(20, {.gpus = 1, .gpu_milli = 1000});
  for (std::size_t i = 0; i < pods.size(); ++i) {
    pods[i].name = std::string(1, static_cast<char>('a' + i));
  }
  const Trace trace = four_gpus(pods);
  const Scenario scenario = draw_scenario(trace, 1, 1300);
  EXPECT_EQ(requested(trace, scenario), 5000);
  EXPECT_EQ(std::set(scenario.pods.begin(), scenario.pods.end()).size(), 5U);
}

TEST(Scenario, DependsOnTheSeedAndNotOnTheOrderOfTheFile) {
  const Trace trace = synthetic_trace(20, 3);
  Trace backwards = trace;
  std::ranges::reverse(backwards.pods);
  const auto names = [](const Trace& of, const Scenario& scenario) {
    std::vector<std::string> all;
    for (const std::uint32_t pod : scenario.pods) {
      all.push_back(of.pods[pod].name);
    }
    return all;
  };
  const Scenario once = draw_scenario(trace, 5, 1300);
  EXPECT_EQ(once.pods, draw_scenario(trace, 5, 1300).pods);
  EXPECT_EQ(once.nodes, draw_scenario(trace, 5, 1300).nodes);
  EXPECT_EQ(names(trace, once), names(backwards, draw_scenario(backwards, 5, 1300)));
  EXPECT_NE(once.pods, draw_scenario(trace, 6, 1300).pods);
}

TEST(TypicalKinds, CoverNinetyFivePercentMostFrequentFirst) {
  std::vector<TracePod> pods;
  const auto add = [&](std::size_t count, const TracePod& pod) { pods.insert(pods.end(), count, pod); };
  add(60, {.cpu_milli = 1000, .memory_mib = 1, .gpus = 1, .gpu_milli = 500});
  add(10, {.cpu_milli = 1000, .memory_mib = 2, .gpus = 1, .gpu_milli = 500});  // memory makes no difference
  add(25, {.cpu_milli = 4000, .gpus = 0, .models = {"T4"}});                   // nor a model without a GPU
  add(5, {.cpu_milli = 1000, .gpus = 1, .gpu_milli = 500, .models = {"T4"}});
  EXPECT_THAT(typical_kinds(pods, kPaperTypicalPercent),
              ElementsAre(PodKind{.cpu_milli = 1000, .gpus = 1, .gpu_milli = 500, .models = {}, .count = 70},
                          PodKind{.cpu_milli = 4000, .gpus = 0, .gpu_milli = 0, .models = {}, .count = 25}));
}

TEST(SyntheticTrace, RequestsAllItsGpusAndIsEqualForEqualSeeds) {
  const Trace trace = synthetic_trace(50, 9);
  EXPECT_EQ(trace.nodes.size(), 50U);
  EXPECT_GE(trace.requested_gpu_milli(), trace.gpu_capacity_milli());
  EXPECT_LT(trace.requested_gpu_milli(), trace.gpu_capacity_milli() + 8000);
  EXPECT_EQ(trace.pods, synthetic_trace(50, 9).pods);
  EXPECT_NE(trace.pods, synthetic_trace(50, 10).pods);
}

}  // namespace
}  // namespace tessera::sim
