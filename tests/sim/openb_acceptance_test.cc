// Repeats the experiment of "Beware of Fragmentation" (Weng et al., USENIX ATC 2023) on its traces,
// if they are available: the reference policies reach the results of the paper's artifact,
// Tessera's exceed them.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "sim/experiment.h"

namespace tessera::sim {
namespace {

std::string openb(const std::string& file) {
  const char* chosen = std::getenv("TESSERA_SHARED_DATA");
  return std::string(chosen != nullptr ? chosen : TESSERA_SHARED_DATA) + "/openb/" + file + ".csv";
}

class Openb : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(openb("openb_node_list_gpu_node"))) {
      GTEST_SKIP() << "the openb traces are missing (" << openb("openb_node_list_gpu_node")
                   << "); set TESSERA_SHARED_DATA to the folder that has openb/";
    }
  }

  static ExperimentResult run(const std::string& workload, const std::vector<std::string>& policies,
                              std::vector<std::uint64_t> seeds) {
    const auto trace = read_trace(openb("openb_node_list_gpu_node"), openb("openb_pod_list_" + workload));
    EXPECT_TRUE(trace) << trace.error().text();
    ExperimentOptions options{.policies = {}, .seeds = std::move(seeds)};
    for (const std::string& policy : policies) {
      options.policies.push_back(find_policy(policy).value());
    }
    auto result = run_experiment(trace.value(), options);
    EXPECT_TRUE(result) << result.error().text();
    return std::move(result).value();
  }
};

TEST_F(Openb, IsReadCompletely) {
  const auto trace = read_trace(openb("openb_node_list_gpu_node"), openb("openb_pod_list_default"));
  ASSERT_TRUE(trace) << trace.error().text();
  EXPECT_EQ(trace->nodes.size(), 1213U);
  EXPECT_EQ(trace->gpu_capacity_milli(), 6'212'000);
  EXPECT_EQ(trace->pods.size(), 8152U);
  EXPECT_EQ(Shapes(trace->pods).all.size(), 151U);
  EXPECT_EQ(typical_kinds(trace->pods, kPaperTypicalPercent).size(), 35U);
}

// Three seeds; single seeds vary by 0.8 points. The simulate benchmark runs all ten and requires
// 0.3 points.
TEST_F(Openb, ReferencePoliciesReachTheResultsOfTheArtifact) {
  struct Reported {
    const char* policy;
    double at_100, at_130;
  };
  const std::vector<Reported> all = {{"Random", 86.30, 87.47},        {"DotProd", 90.62, 90.85},
                                     {"GpuClustering", 91.65, 91.88}, {"GpuPacking", 91.78, 92.00},
                                     {"BestFit", 92.86, 93.08},       {"FGD", 95.23, 95.39}};
  std::vector<std::string> names;
  for (const Reported& one : all) {
    names.emplace_back(one.policy);
  }
  const ExperimentResult result = run("default", names, {42, 43, 44});
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_NEAR(result.policies[i].mean_at(100)->allocated_percent, all[i].at_100, 0.5) << all[i].policy;
    EXPECT_NEAR(result.policies[i].mean_at(130)->allocated_percent, all[i].at_130, 0.5) << all[i].policy;
  }
}

struct Bar {
  const char* workload;
  double at_100;
};

class OpenbBars : public Openb, public testing::WithParamInterface<Bar> {};

// Ties between scores are broken randomly, as kube-scheduler does.
TEST_P(OpenbBars, FgdReachesIt) {
  const ExperimentResult result = run(GetParam().workload, {"fgd"}, {42, 43, 44});
  EXPECT_GE(result.policies[0].mean_at(100)->allocated_percent, GetParam().at_100);
}

INSTANTIATE_TEST_SUITE_P(All, OpenbBars,
                         testing::Values(Bar{"default", 95.0}, Bar{"gpushare100", 86.4},
                                         Bar{"multigpu50", 97.0}, Bar{"gpuspec10", 94.9},
                                         Bar{"cpu050", 95.1}),
                         [](const auto& test) { return std::string(test.param.workload); });

}  // namespace
}  // namespace tessera::sim
