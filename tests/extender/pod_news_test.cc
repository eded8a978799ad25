#include "extender/pod_news.h"

#include <gtest/gtest.h>

namespace tessera::extender {
namespace {

using namespace std::chrono_literals;

// kube-scheduler tried a pod 34 times in 10 s, and each try was counted in the Event.
TEST(PodNews, ReportsAnUnchangedReasonOnceInFiveMinutes) {
  PodNews news;
  ManualClock clock;
  EXPECT_TRUE(news.is_unavailable_due("u", "no GPU is wholly free", clock.now()));
  for (int i = 0; i < 34; ++i) {
    clock.advance(300ms);
    EXPECT_FALSE(news.is_unavailable_due("u", "no GPU is wholly free", clock.now()));
  }
  EXPECT_TRUE(news.is_unavailable_due("another", "no GPU is wholly free", clock.now()));
  clock.advance(5min);
  EXPECT_TRUE(news.is_unavailable_due("u", "no GPU is wholly free", clock.now()));
  clock.advance(299s);
  EXPECT_FALSE(news.is_unavailable_due("u", "no GPU is wholly free", clock.now()));
}

TEST(PodNews, ReportsAnotherReasonAtOnceButNotIfItFlaps) {
  PodNews news;
  ManualClock clock;
  EXPECT_TRUE(news.is_unavailable_due("u", "first", clock.now()));
  clock.advance(10s);
  EXPECT_TRUE(news.is_unavailable_due("u", "second", clock.now()));
  int reported = 0;
  for (int i = 0; i < 100; ++i) {
    clock.advance(100ms);
    reported += news.is_unavailable_due("u", i % 2 == 0 ? "first" : "second", clock.now()) ? 1 : 0;
  }
  EXPECT_LE(reported, 1);
}

TEST(PodNews, ReportsAMixedRequestOncePerPod) {
  PodNews news;
  ManualClock clock;
  EXPECT_TRUE(news.is_mixed_due("u", clock.now()));
  clock.advance(1h);
  EXPECT_FALSE(news.is_mixed_due("u", clock.now()));
  EXPECT_TRUE(news.is_mixed_due("v", clock.now()));
  EXPECT_TRUE(news.is_unavailable_due("u", "x", clock.now())) << "the two Events are independent";
}

TEST(PodNews, RemembersABoundedNumberOfPods) {
  PodNews news;
  ManualClock clock;
  EXPECT_TRUE(news.is_unavailable_due("old", "x", clock.now()));
  clock.advance(PodNews::kRepeatAfter + 1s);
  EXPECT_TRUE(news.is_unavailable_due("recent", "x", clock.now()));
  for (std::size_t i = 0; i + 2 < PodNews::kMostPods; ++i) {
    EXPECT_TRUE(news.is_unavailable_due("pod-" + std::to_string(i), "x", clock.now()));
  }
  EXPECT_TRUE(news.is_unavailable_due("one-more", "x", clock.now())) << "the old pod is dropped for it";
  EXPECT_FALSE(news.is_unavailable_due("recent", "x", clock.now()));
  EXPECT_TRUE(news.is_unavailable_due("another", "x", clock.now())) << "all are recent, so all are dropped";
  EXPECT_TRUE(news.is_unavailable_due("recent", "x", clock.now()));
}

}  // namespace
}  // namespace tessera::extender
