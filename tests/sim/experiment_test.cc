#include "sim/experiment.h"

#include <gmock/gmock.h>

#include "sim/synthetic.h"

namespace tessera::sim {
namespace {

// A result without its duration.
std::vector<std::vector<LoadPoint>> curves(const ExperimentResult& result) {
  std::vector<std::vector<LoadPoint>> all;
  for (const PolicyResult& policy : result.policies) {
    for (const RunResult& run : policy.runs) {
      all.push_back(run.curve);
    }
  }
  return all;
}

TEST(Experiment, DependsOnSeedsAndNotOnThreads) {
  const Trace trace = synthetic_trace(30, 1);
  ExperimentOptions options{.policies = policy_names(), .seeds = {42, 43}, .threads = 1};
  const auto alone = run_experiment(trace, options);
  ASSERT_TRUE(alone) << alone.error().text();
  options.threads = 4;
  const auto together = run_experiment(trace, options);
  ASSERT_TRUE(together);
  EXPECT_EQ(curves(*alone), curves(*together));
  EXPECT_NE(alone->policies[0].runs[0].curve, alone->policies[0].runs[1].curve);
}

TEST(Experiment, CountsEveryPodAndEveryPercent) {
  const Trace trace = synthetic_trace(30, 1);
  std::size_t reported = 0;
  const auto result = run_experiment(
      trace, {.policies = {*find_policy("FirstFit"), *find_policy("fgd")}, .seeds = {7}, .load_milli = 1200},
      [&reported](std::size_t done, std::size_t all, const PolicyName&, std::uint64_t seed) {
        reported = std::max(reported, done);
        EXPECT_EQ(all, 2U);
        EXPECT_EQ(seed, 7U);
      });
  ASSERT_TRUE(result);
  EXPECT_EQ(reported, 2U);
  const std::size_t pods = draw_scenario(trace, 7, 1200).pods.size();
  for (const PolicyResult& policy : result->policies) {
    const RunResult& run = policy.runs[0];
    EXPECT_EQ(run.placed + run.refused, pods);
    EXPECT_GT(run.refused, 0U);
    ASSERT_TRUE(run.first_refusal_percent);
    // Until the first refusal everything that was requested is allocated.
    EXPECT_NEAR(run.at(20)->allocated_percent, 20, 1);
    EXPECT_LE(run.at(120)->allocated_percent, 100);
    EXPECT_FALSE(run.at(130));
    EXPECT_EQ(policy.mean_at(100), run.at(100));
  }
}

TEST(Experiment, FgdLearnsTypicalPods) {
  const Trace trace = synthetic_trace(100, 1);
  ExperimentOptions options{.policies = {*find_policy("fgd"), *find_policy("Random")}, .seeds = {42}};
  options.typical_from_trace = false;
  const auto learned = run_experiment(trace, options);
  ASSERT_TRUE(learned);
  EXPECT_GT(learned->policies[0].mean_at(130)->allocated_percent,
            learned->policies[1].mean_at(130)->allocated_percent + 2);
}

// Jobs of eight GPUs are one pod in eighty here, but an eighth of all requests.
TEST(Experiment, FgdKeepsRoomForRareLargeJobs) {
  const auto result =
      run_experiment(synthetic_trace(200, 1),
                     {.policies = {*find_policy("fgd"), *find_policy("FGD")}, .seeds = {42, 43, 44}});
  ASSERT_TRUE(result);
  for (const RunResult& run : result->policies[0].runs) {
    EXPECT_GT(run.first_refusal_percent.value_or(100), 80) << "seed " << run.seed;
  }
  for (const int load : {100, 130}) {
    EXPECT_GT(result->policies[0].mean_at(load)->allocated_percent,
              result->policies[1].mean_at(load)->allocated_percent);
  }
}

}  // namespace
}  // namespace tessera::sim
