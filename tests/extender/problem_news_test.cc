#include "extender/problem_news.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../alloc/cluster.h"

namespace tessera::extender {
namespace {

using namespace std::chrono_literals;
using alloc::ProblemKind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ProblemNewsTest : public ::testing::Test {
 protected:
  ProblemNewsTest() { keep(0, {}); }

  void keep(std::int64_t capacity, const std::vector<std::string>& also_served_as) {
    alloc::Inventory inventory = alloc::testing::inventory_of("a", {16, 16});
    inventory.also_served_as = also_served_as;
    alloc::NodeSpec node = alloc::testing::node_with("a", inventory);
    node.gpu_memory_units = capacity;
    ledger_.upsert_node(node);
  }
  std::vector<ProblemKind> reported(Clock::Steady::duration later = 5s) {
    now_ += later;
    std::vector<ProblemKind> kinds;
    for (const alloc::Problem& problem : news_.take(ledger_, now_)) {
      kinds.push_back(problem.kind);
    }
    return kinds;
  }

  alloc::Ledger ledger_;
  ProblemNews news_;
  Clock::Steady now_{};
};

TEST_F(ProblemNewsTest, ReportsAProblemOnceAndAgainWhenItReturns) {
  EXPECT_THAT(reported(), IsEmpty());
  keep(32, {"example.com/gpu"});
  EXPECT_THAT(reported(), ElementsAre(ProblemKind::kSecondPlugin));
  keep(32, {"example.com/gpu"});
  EXPECT_THAT(reported(), IsEmpty());
  keep(32, {"example.com/gpu", "example.com/gpu.shared"});
  EXPECT_THAT(reported(), ElementsAre(ProblemKind::kSecondPlugin)) << "the text changed";
  keep(32, {});
  EXPECT_THAT(reported(), IsEmpty());
  keep(32, {"example.com/gpu"});
  EXPECT_THAT(reported(), ElementsAre(ProblemKind::kSecondPlugin));
}

TEST_F(ProblemNewsTest, DoesNotReportAShortCapacityMismatch) {
  keep(31, {});
  EXPECT_THAT(reported(), IsEmpty());
  EXPECT_THAT(reported(20s), IsEmpty());
  keep(32, {});
  EXPECT_THAT(reported(20s), IsEmpty());
  keep(31, {});
  EXPECT_THAT(reported(20s), IsEmpty()) << "the grace period starts again";
  EXPECT_THAT(reported(20s), IsEmpty());
  EXPECT_THAT(reported(20s), ElementsAre(ProblemKind::kCapacityDiffers));
  EXPECT_THAT(reported(60s), IsEmpty());
  keep(30, {});
  EXPECT_THAT(reported(), IsEmpty());
  EXPECT_THAT(reported(30s), ElementsAre(ProblemKind::kCapacityDiffers)) << "the amount changed";
}

// kubelet counts the shares of a removed GPU, as unhealthy devices, until the pods that hold them
// end. Restarting the agent would not help, so the mismatch is not reported.
TEST_F(ProblemNewsTest, DoesNotReportACapacityMismatchWhilePodsHoldARemovedGpu) {
  ledger_.upsert_pod(alloc::testing::bound_share("p", 4, "a", 7));
  keep(36, {});
  EXPECT_THAT(reported(), ElementsAre(ProblemKind::kLostGpu));
  EXPECT_THAT(reported(60s), IsEmpty());
  ledger_.remove_pod("uid-p");
  keep(36, {});
  EXPECT_THAT(reported(), IsEmpty());
  EXPECT_THAT(reported(60s), ElementsAre(ProblemKind::kCapacityDiffers)) << "no pod holds the GPU any more";
}

TEST_F(ProblemNewsTest, UsesSeparateEventReasonsForNodes) {
  EXPECT_EQ(event_reason(ProblemKind::kSecondPlugin), "OtherDevicePlugin");
  EXPECT_EQ(event_reason(ProblemKind::kCapacityDiffers), "GpuCapacityMismatch");
  EXPECT_EQ(event_reason(ProblemKind::kLostGpu), "GpuStateInconsistent");
}

}  // namespace
}  // namespace tessera::extender
