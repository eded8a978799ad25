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
  const Explanation told = why(share_pod("p", 8), "a");
  EXPECT_EQ(told.phrase, "no single GPU has 8GiB free");
  EXPECT_EQ(told.best_gpu, 0U);
  EXPECT_EQ(told.text,
            "GPU 0 has most, 7GiB free of 16GiB, and 1GiB more is needed; it would fit when ml/notebook "
            "(9GiB) ends");
  EXPECT_EQ(why(share_pod("p", 16), "a").blockers.size(), 1U);
}

PodSpec over_gpus(PodSpec pod, unsigned gpus) {
  pod.annotations["aliyun.com/gpu-count"] = std::to_string(gpus);
  return pod;
}

// Whether the pods that were named are really those whose end helps.
bool fits_when_they_end(Ledger& ledger, Placer& placer, const PodSpec& pod, const Explanation& told) {
  std::vector<std::string_view> uids;
  for (const PodHolding& blocker : told.blockers) {
    uids.push_back(blocker.pod.uid);
  }
  return placer.fits_without(request_of(pod), ledger.find_node("a").value(), uids);
}

TEST_F(ExplainTest, OfSeveralGpusTellsOfTheLastThatIsNeeded) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("x", 6, "a", 0));
  ledger.upsert_pod(bound_share("y", 12, "a", 1));
  const PodSpec pod = over_gpus(share_pod("p", 16), 2);
  const Explanation told = why(pod, "a");
  EXPECT_EQ(told.reason, Reason::kTooFewGpusWithEnoughFree);
  EXPECT_EQ(told.best_gpu, 1U);
  EXPECT_EQ(told.short_units, 4U);
  EXPECT_EQ(
      told.text,
      "1 of 2 GPUs has enough, of the others GPU 1 has most, 4GiB free of 16GiB, and 4GiB more is needed; "
      "it would fit when ml/y (12GiB) ends");
  EXPECT_TRUE(fits_when_they_end(ledger, placer, pod, told));
}

TEST_F(ExplainTest, NamesThePodsOfEveryGpuThatLacksSomething) {
  ledger.upsert_node(node_of("a", {16, 16, 16}));
  ledger.upsert_pod(bound_share("x", 10, "a", 0));
  ledger.upsert_pod(bound_share("y", 12, "a", 1));
  ledger.upsert_pod(bound_whole("z", "a", {2}));
  const PodSpec pod = over_gpus(share_pod("p", 16), 2);
  const Explanation told = why(pod, "a");
  EXPECT_EQ(told.blockers.size(), 2U);
  EXPECT_TRUE(fits_when_they_end(ledger, placer, pod, told)) << told.text;
}

TEST_F(ExplainTest, LooksOnlyAtGpusThatThePodAllows) {
  ledger.upsert_node(node_of("a", {80, 16}));
  ledger.upsert_pod(bound_share("x", 12, "a", 1));
  PodSpec pod = share_pod("p", 8);
  pod.annotations[std::string(key::kGpuModel)] = "T4";
  const Explanation told = why(pod, "a");
  EXPECT_EQ(told.best_gpu, 1U) << "the A100 is free, and not wanted";
  EXPECT_EQ(
      told.text,
      "GPU 1, of those that the pod's annotations allow, has most, 4GiB free of 16GiB, and 4GiB more is "
      "needed; it would fit when ml/x (12GiB) ends");
  PodSpec whole = whole_pod("w", 1);
  whole.annotations[std::string(key::kGpuModel)] = "T4";
  EXPECT_THAT(why(whole, "a").text, HasSubstr("1 more is needed; it would fit when ml/x (12GiB) ends"));
}

TEST_F(ExplainTest, CountsTheGpuThatTheShareOfTheSamePodTakes) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("x", 12, "a", 0));
  const PodSpec pod = pod_of("p", {container("main", 8, 1)});
  const Explanation told = why(pod, "a");
  EXPECT_EQ(told.reason, Reason::kTooFewWholeGpus);
  EXPECT_EQ(told.short_gpus, 1U);
  EXPECT_EQ(
      told.text,
      "1 of its 2 GPUs is wholly free, its share takes 1 of them, 1 more is needed; it would fit when ml/x "
      "(12GiB) ends");
}

TEST_F(ExplainTest, NamesWhomPartsThatDoNotFitTogetherWaitFor) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("x", 6, "a", 0));
  ledger.upsert_pod(bound_share("y", 12, "a", 1));
  PodSpec pod = pod_of("p", {container("one", 8), container("two", 8)});
  pod.annotations[std::string(key::kPlacement)] = "per-container";
  const Explanation told = why(pod, "a");
  EXPECT_EQ(told.reason, Reason::kContainersDoNotFit);
  EXPECT_FALSE(told.best_gpu.has_value());
  ASSERT_EQ(told.blockers.size(), 1U);
  EXPECT_TRUE(fits_when_they_end(ledger, placer, pod, told)) << told.text;
}

TEST_F(ExplainTest, PromisesNothingThatNoEndOfPodsWouldBring) {
  Inventory inventory = inventory_of("a", {16, 16, 16});
  inventory.gpus[2].unhealthy = "XID 79";
  ledger.upsert_node(node_with("a", inventory));
  ledger.upsert_pod(bound_share("x", 6, "a", 0));
  const Explanation told = why(over_gpus(share_pod("p", 36), 3), "a");
  EXPECT_TRUE(told.blockers.empty()) << told.text;
}

TEST_F(ExplainTest, NamesThePodsThatKeepGpusFromBeingWhollyFree) {
  ledger.upsert_node(node_of("a", {16, 16, 16}));
  ledger.upsert_pod(bound_whole("bert", "a", {0}));
  ledger.upsert_pod(bound_share("x", 4, "a", 1));
  ledger.upsert_pod(bound_share("y", 4, "a", 1));
  const Explanation told = why(whole_pod("p", 2), "a");
  EXPECT_EQ(told.text,
            "1 of its 3 GPUs is wholly free, 1 more is needed; it would fit when ml/bert (1 GPU) ends");
  EXPECT_EQ(told.short_gpus, 1U);
}

TEST_F(ExplainTest, TellsWhatAilsTheGpus) {
  Inventory inventory = inventory_of("a", {16, 16});
  inventory.gpus[1].unhealthy = "XID 79 since 14:02";
  inventory.gpus[0].unhealthy = "XID 79 since 14:02";
  ledger.upsert_node(node_with("a", inventory));
  EXPECT_EQ(why(share_pod("p", 8), "a").text, "GPU 0-1 unhealthy: XID 79 since 14:02");
}

TEST_F(ExplainTest, TellsWhyANodeIsFenced) {
  NodeSpec node = node_of("a", {16});
  node.inventory = "{";
  ledger.upsert_node(node);
  const Explanation told = why(share_pod("p", 8), "a");
  EXPECT_EQ(told.phrase, "node's GPU inventory cannot be read");
  EXPECT_THAT(told.text, HasSubstr("tessera.io/inventory: not JSON"));
}

TEST_F(ExplainTest, PhrasesHoldNoNumbersOfNodes) {
  ledger.upsert_node(node_of("a", {16, 12}));
  ledger.upsert_node(node_of("b", {10}));
  ledger.upsert_pod(bound_share("x", 9, "a", 0));
  ledger.upsert_pod(bound_share("y", 5, "a", 1));
  ledger.upsert_pod(bound_share("z", 3, "b", 0));
  EXPECT_EQ(why(share_pod("p", 8), "a").phrase, why(share_pod("p", 8), "b").phrase);
  EXPECT_NE(why(share_pod("p", 8), "a").text, why(share_pod("p", 8), "b").text);
}

// Whoever waits for one of these is looked at once more before it hears no.
TEST(Reason, MayPassWhereTheNextInventoryOfTheNodeCanEndIt) {
  for (const Reason reason : {Reason::kUnknownNode, Reason::kNoGpus, Reason::kInventoryUnreadable,
                              Reason::kUnitDiffers, Reason::kSecondPlugin, Reason::kOldPlugin, Reason::kNoMps,
                              Reason::kUnhealthy, Reason::kNoGpuWithEnoughFree, Reason::kTooFewWholeGpus}) {
    EXPECT_TRUE(may_pass(reason)) << static_cast<int>(reason);
  }
  for (const Reason reason :
       {Reason::kFits, Reason::kGpusTooSmall, Reason::kTooFewGpus, Reason::kNoSuchModel}) {
    EXPECT_FALSE(may_pass(reason)) << static_cast<int>(reason);
  }
}

TEST_F(ExplainTest, SumsUpWhatIsFree) {
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

TEST(RequestHistogram, ForgetsWhatCameLongAgo) {
  RequestHistogram recent;
  for (unsigned i = 0; i < 2000; ++i) {
    recent.add(request_of(whole_pod("old", 8)));
  }
  const Request now = request_of(share_pod("new", 4));
  for (std::uint64_t i = 0; i < 10 * RequestHistogram::kMemory; ++i) {
    recent.add(now);
  }
  ASSERT_EQ(recent.typical().size(), 1U);
  EXPECT_EQ(recent.typical()[0].shape.share.units, 4U);
}

}  // namespace
}  // namespace tessera::alloc::testing
