#include "alloc/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "alloc/typical.h"
#include "cluster.h"

namespace tessera::alloc::testing {
namespace {

using ::testing::HasSubstr;

class ExplainTest : public ::testing::Test {
 protected:
  Explanation why(const PodSpec& pod, const std::string& node) {
    return explain(ledger, placer, request_of(pod), ledger.find_node(node).value());
  }
  Ledger ledger;
  Placer placer{ledger};
};

TEST_F(ExplainTest, NamesTheBestGpuAndWhoHoldsIt) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("notebook", 9, "a", 0));
  ledger.upsert_pod(bound_share("infer", 4, "a", 1));
  ledger.upsert_pod(bound_share("large", 5, "a", 1));
  const Explanation explanation = why(share_pod("p", 8), "a");
  EXPECT_EQ(explanation.phrase, "no single GPU has 8GiB free");
  EXPECT_EQ(explanation.best_gpu, 0U);
  EXPECT_EQ(explanation.text,
            "GPU 0 has the most free memory, 7GiB of 16GiB; 1GiB more is needed; it would fit when ml/infer "
            "(4GiB) ends");
  EXPECT_EQ(why(share_pod("p", 16), "a").blockers.size(), 1U);
}

TEST_F(ExplainTest, NamesTheFewestPodsAndOfThoseTheSmallest) {
  ledger.upsert_node(node_of("a", {16}));
  ledger.upsert_pod(bound_share("x", 5, "a", 0));
  ledger.upsert_pod(bound_share("y", 6, "a", 0));
  ledger.upsert_pod(bound_share("z", 2, "a", 0));
  // 3 GiB are free. y and z free the 7 GiB that are missing; y and x would free more than needed.
  const Explanation explanation = why(share_pod("p", 10), "a");
  ASSERT_EQ(explanation.blockers.size(), 2U);
  EXPECT_EQ(explanation.blockers[0].pod.name, "y");
  EXPECT_EQ(explanation.blockers[1].pod.name, "z");
}

TEST_F(ExplainTest, PrefersToEndAShareToAPodWithManyWholeGpus) {
  ledger.upsert_node(node_of("a", {16, 16, 16}));
  ledger.upsert_pod(bound_whole("pair", "a", {0, 1}));
  ledger.upsert_pod(bound_share("small", 1, "a", 2));
  const Explanation explanation = why(whole_pod("p", 1), "a");
  ASSERT_EQ(explanation.blockers.size(), 1U);
  EXPECT_EQ(explanation.blockers[0].pod.name, "small");
}

PodSpec over_gpus(PodSpec pod, unsigned gpus) {
  pod.annotations["aliyun.com/gpu-count"] = std::to_string(gpus);
  return pod;
}

// Whether the request fits when the named pods have ended.
bool fits_when_they_end(Ledger& ledger, Placer& placer, const PodSpec& pod, const Explanation& explanation) {
  std::vector<std::string_view> uids;
  for (const PodHolding& blocker : explanation.blockers) {
    uids.push_back(blocker.pod.uid);
  }
  SearchBudget budget;
  return placer.fits_without(request_of(pod), ledger.find_node("a").value(), uids, budget);
}

TEST_F(ExplainTest, ForSeveralGpusNamesTheLastOneThatIsNeeded) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("x", 6, "a", 0));
  ledger.upsert_pod(bound_share("y", 12, "a", 1));
  const PodSpec pod = over_gpus(share_pod("p", 16), 2);
  const Explanation explanation = why(pod, "a");
  EXPECT_EQ(explanation.reason, Reason::kTooFewGpusWithEnoughFree);
  EXPECT_EQ(explanation.best_gpu, 1U);
  EXPECT_EQ(explanation.short_units, 4U);
  EXPECT_EQ(
      explanation.text,
      "1 of 2 GPUs has enough free; of the others GPU 1 has the most, 4GiB of 16GiB; 4GiB more is needed; "
      "it would fit when ml/y (12GiB) ends");
  EXPECT_TRUE(fits_when_they_end(ledger, placer, pod, explanation));
}

TEST_F(ExplainTest, NamesThePodsOnEveryGpuThatHasTooLittleFree) {
  ledger.upsert_node(node_of("a", {16, 16, 16}));
  ledger.upsert_pod(bound_share("x", 10, "a", 0));
  ledger.upsert_pod(bound_share("y", 12, "a", 1));
  ledger.upsert_pod(bound_whole("z", "a", {2}));
  const PodSpec pod = over_gpus(share_pod("p", 16), 2);
  const Explanation explanation = why(pod, "a");
  EXPECT_EQ(explanation.blockers.size(), 2U);
  EXPECT_TRUE(fits_when_they_end(ledger, placer, pod, explanation)) << explanation.text;
}

TEST_F(ExplainTest, ConsidersOnlyGpusThatThePodAllows) {
  ledger.upsert_node(node_of("a", {80, 16}));
  ledger.upsert_pod(bound_share("x", 12, "a", 1));
  PodSpec pod = share_pod("p", 8);
  pod.annotations[std::string(key::kGpuModel)] = "T4";
  const Explanation explanation = why(pod, "a");
  EXPECT_EQ(explanation.best_gpu, 1U) << "the A100 is free but not allowed";
  EXPECT_EQ(explanation.text,
            "GPU 1 has the most free memory of the GPUs that the pod's annotations allow, 4GiB of 16GiB; "
            "4GiB more is "
            "needed; it would fit when ml/x (12GiB) ends");
  PodSpec whole = whole_pod("w", 1);
  whole.annotations[std::string(key::kGpuModel)] = "T4";
  EXPECT_THAT(why(whole, "a").text, HasSubstr("1 more is needed; it would fit when ml/x (12GiB) ends"));
}

TEST_F(ExplainTest, CountsTheGpuThatTheShareOfThePodTakes) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("x", 12, "a", 0));
  const PodSpec pod = pod_of("p", {container("main", 8, 1)});
  const Explanation explanation = why(pod, "a");
  EXPECT_EQ(explanation.reason, Reason::kTooFewWholeGpus);
  EXPECT_EQ(explanation.short_gpus, 1U);
  EXPECT_EQ(explanation.text,
            "1 of its 2 GPUs is wholly free; the pod's share takes 1 of them; 1 more is needed; it would fit "
            "when ml/x "
            "(12GiB) ends");
}

TEST_F(ExplainTest, NamesTheBlockersOfPartsThatDoNotFitTogether) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("x", 6, "a", 0));
  ledger.upsert_pod(bound_share("y", 12, "a", 1));
  PodSpec pod = pod_of("p", {container("one", 8), container("two", 8)});
  pod.annotations[std::string(key::kPlacement)] = "per-container";
  const Explanation explanation = why(pod, "a");
  EXPECT_EQ(explanation.reason, Reason::kContainersDoNotFit);
  EXPECT_FALSE(explanation.best_gpu.has_value());
  ASSERT_EQ(explanation.blockers.size(), 1U);
  EXPECT_TRUE(fits_when_they_end(ledger, placer, pod, explanation)) << explanation.text;
}

TEST_F(ExplainTest, NamesNoBlockersIfEvictionCannotHelp) {
  Inventory inventory = inventory_of("a", {16, 16, 16});
  inventory.gpus[2].unhealthy = "XID 79";
  ledger.upsert_node(node_with("a", inventory));
  ledger.upsert_pod(bound_share("x", 6, "a", 0));
  const Explanation explanation = why(over_gpus(share_pod("p", 36), 3), "a");
  EXPECT_TRUE(explanation.blockers.empty()) << explanation.text;
}

TEST_F(ExplainTest, NamesThePodsOnGpusThatCouldBecomeWhollyFree) {
  ledger.upsert_node(node_of("a", {16, 16, 16}));
  ledger.upsert_pod(bound_whole("bert", "a", {0}));
  ledger.upsert_pod(bound_share("x", 4, "a", 1));
  ledger.upsert_pod(bound_share("y", 4, "a", 1));
  const Explanation explanation = why(whole_pod("p", 2), "a");
  EXPECT_EQ(explanation.text,
            "1 of its 3 GPUs is wholly free; 1 more is needed; it would fit when ml/bert (1 GPU) ends");
  EXPECT_EQ(explanation.short_gpus, 1U);
}

TEST_F(ExplainTest, SaysWhyGpusAreUnhealthy) {
  Inventory inventory = inventory_of("a", {16, 16});
  inventory.gpus[1].unhealthy = "XID 79 since 14:02";
  inventory.gpus[0].unhealthy = "XID 79 since 14:02";
  ledger.upsert_node(node_with("a", inventory));
  EXPECT_EQ(why(share_pod("p", 8), "a").text, "GPU 0-1 unhealthy: XID 79 since 14:02");
}

TEST_F(ExplainTest, SaysWhyANodeIsFenced) {
  NodeSpec node = node_of("a", {16});
  node.inventory = "{";
  ledger.upsert_node(node);
  const Explanation explanation = why(share_pod("p", 8), "a");
  EXPECT_EQ(explanation.phrase, "node's GPU inventory cannot be read");
  EXPECT_THAT(explanation.text, HasSubstr("tessera.io/inventory: not JSON"));
}

TEST_F(ExplainTest, PhrasesContainNoNumbersOfNodes) {
  ledger.upsert_node(node_of("a", {16, 12}));
  ledger.upsert_node(node_of("b", {10}));
  ledger.upsert_pod(bound_share("x", 9, "a", 0));
  ledger.upsert_pod(bound_share("y", 5, "a", 1));
  ledger.upsert_pod(bound_share("z", 3, "b", 0));
  EXPECT_EQ(why(share_pod("p", 8), "a").phrase, why(share_pod("p", 8), "b").phrase);
  EXPECT_NE(why(share_pod("p", 8), "a").text, why(share_pod("p", 8), "b").text);
}

// The extender checks such nodes once more before it refuses the pod.
TEST(Reason, MayPassIfTheNextInventoryOfTheNodeCanChangeIt) {
  for (const Reason reason :
       {Reason::kUnknownNode, Reason::kNoGpus, Reason::kInventoryUnreadable, Reason::kUnitDiffers,
        Reason::kSecondPlugin, Reason::kAgentAway, Reason::kUnreadablePod, Reason::kOriginalPlugin,
        Reason::kOriginalTopologyPlugin, Reason::kNoMps, Reason::kUnhealthy, Reason::kNoGpuWithEnoughFree,
        Reason::kTooFewWholeGpus}) {
    EXPECT_TRUE(may_pass(reason)) << static_cast<int>(reason);
  }
  for (const Reason reason :
       {Reason::kFits, Reason::kGpusTooSmall, Reason::kTooFewGpus, Reason::kNoSuchModel}) {
    EXPECT_FALSE(may_pass(reason)) << static_cast<int>(reason);
  }
}

TEST_F(ExplainTest, SumsTheFreeCapacity) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_node(node_of("b", {32}));
  ledger.upsert_pod(bound_share("x", 9, "a", 0));
  const FreeSummary sum = free_summary(ledger);
  EXPECT_EQ(sum.units, 7U + 16 + 32);
  EXPECT_EQ(sum.gpus_with_room, 3U);
  EXPECT_EQ(sum.whole_gpus, 2U);
  EXPECT_EQ(sum.largest_units, 32U);
  EXPECT_EQ(sum.largest_whole, 1U);
}

TEST(RequestHistogram, KeepsTheMostFrequentShapes) {
  RequestHistogram recent;
  for (unsigned i = 0; i < 495; ++i) {
    recent.add(request_of(share_pod("p", 4)));
  }
  for (unsigned i = 0; i < 5; ++i) {
    recent.add(request_of(whole_pod("p", 1 + i)));
  }
  recent.add(request_of(pod_of("web", {container("main", 0)})));
  const auto typical = recent.typical();
  ASSERT_EQ(typical.size(), 1U);
  EXPECT_EQ(typical[0].shape.share.units, 4U);
  EXPECT_EQ(typical[0].count, 495U);
}

TEST(RequestHistogram, ForgetsOldRequests) {
  RequestHistogram recent;
  for (unsigned i = 0; i < 2000; ++i) {
    recent.add(request_of(whole_pod("old", 8)));
  }
  const Request now = request_of(share_pod("new", 4));
  for (std::uint64_t i = 0; i < 10 * RequestHistogram::kHalveAt; ++i) {
    recent.add(now);
  }
  ASSERT_EQ(recent.typical().size(), 1U);
  EXPECT_EQ(recent.typical()[0].shape.share.units, 4U);
}

}  // namespace
}  // namespace tessera::alloc::testing
