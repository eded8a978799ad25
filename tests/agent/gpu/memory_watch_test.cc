#include "agent/gpu/memory_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../devices/fake_node.h"
#include "gpu_node.h"

namespace tessera::agent {
namespace {

using namespace std::chrono_literals;
using Kind = MemoryVerdict::Kind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr std::uint64_t kGib = 1U << 30U;

MemoryUse use_of(std::uint64_t used, std::optional<std::uint64_t> allowed,
                 const std::string& pod = "train-7") {
  return {.who = {.pod = {pod.empty() ? "" : "ml", pod}, .pod_uid = "u-" + pod, .container = "main"},
          .gpu = "GPU-0",
          .allowed_bytes = allowed,
          .used_bytes = used,
          .processes = 1};
}

class MemoryJudgeTest : public ::testing::Test {
 protected:
  std::vector<Kind> judge(MemoryJudge& judge, const MemoryUse& use, std::chrono::seconds at) {
    std::vector<Kind> kinds;
    for (const MemoryVerdict& verdict : judge.judge({use}, Clock::Steady{} + at)) {
      kinds.push_back(verdict.kind);
    }
    return kinds;
  }
};

TEST_F(MemoryJudgeTest, AcceptsContainersWithinTheirRequest) {
  MemoryJudge rules({.policy = MemoryPolicy::kEvict, .grace = 30s, .slack_bytes = kGib});
  EXPECT_THAT(judge(rules, use_of(3 * kGib, 3 * kGib), 0s), IsEmpty());
  EXPECT_THAT(judge(rules, use_of(4 * kGib, 3 * kGib), 10s), IsEmpty());       // within the slack
  EXPECT_THAT(judge(rules, use_of(32 * kGib, std::nullopt), 20s), IsEmpty());  // has the whole GPU
  EXPECT_EQ(rules.over(), 0U);
}

TEST_F(MemoryJudgeTest, ReportsOnceAndNeverEvictsByDefault) {
  MemoryJudge rules({});
  EXPECT_THAT(judge(rules, use_of(4 * kGib, 3 * kGib), 0s), ElementsAre(Kind::kOver));
  EXPECT_THAT(judge(rules, use_of(5 * kGib, 3 * kGib), 10s), IsEmpty());
  EXPECT_THAT(judge(rules, use_of(5 * kGib, 3 * kGib), 3600s), IsEmpty());
  EXPECT_EQ(rules.over(), 1U);
  EXPECT_TRUE(rules.is_over(use_of(5 * kGib, 3 * kGib)));
}

TEST_F(MemoryJudgeTest, RequestsTheEvictionAfterTheGraceTimeUntilThePodIsGone) {
  MemoryJudge rules({.policy = MemoryPolicy::kEvict, .grace = 30s});
  EXPECT_THAT(judge(rules, use_of(4 * kGib, 3 * kGib), 0s), ElementsAre(Kind::kOver));
  EXPECT_THAT(judge(rules, use_of(4 * kGib, 3 * kGib), 29s), IsEmpty());
  EXPECT_THAT(judge(rules, use_of(4 * kGib, 3 * kGib), 30s), ElementsAre(Kind::kEvict));
  EXPECT_THAT(judge(rules, use_of(4 * kGib, 3 * kGib), 40s), ElementsAre(Kind::kEvict));
}

TEST_F(MemoryJudgeTest, DoesNotEvictAContainerThatFreesMemoryWithinTheGraceTime) {
  MemoryJudge rules({.policy = MemoryPolicy::kEvict, .grace = 30s});
  EXPECT_THAT(judge(rules, use_of(4 * kGib, 3 * kGib), 0s), ElementsAre(Kind::kOver));
  EXPECT_THAT(judge(rules, use_of(2 * kGib, 3 * kGib), 20s), IsEmpty());
  // Above its request again: the grace time restarts, without another report.
  EXPECT_THAT(judge(rules, use_of(4 * kGib, 3 * kGib), 25s), IsEmpty());
  EXPECT_THAT(judge(rules, use_of(4 * kGib, 3 * kGib), 45s), IsEmpty());
  EXPECT_THAT(judge(rules, use_of(4 * kGib, 3 * kGib), 55s), ElementsAre(Kind::kEvict));
}

TEST_F(MemoryJudgeTest, ReportsAgainAfterALongTimeWithinTheRequest) {
  MemoryJudge rules({.grace = 30s});
  EXPECT_THAT(judge(rules, use_of(4 * kGib, 3 * kGib), 0s), ElementsAre(Kind::kOver));
  EXPECT_THAT(judge(rules, use_of(1 * kGib, 3 * kGib), 30s), ElementsAre(Kind::kWithinLimit));
  EXPECT_THAT(judge(rules, use_of(4 * kGib, 3 * kGib), 40s), ElementsAre(Kind::kOver));
}

TEST_F(MemoryJudgeTest, NeverEvictsAPodThatRequestsNoGpu) {
  MemoryJudge rules({.policy = MemoryPolicy::kEvict, .grace = 30s});
  EXPECT_THAT(judge(rules, use_of(kGib, 0, ""), 0s), ElementsAre(Kind::kUnrequested));
  EXPECT_THAT(judge(rules, use_of(kGib, 0, ""), 100s), IsEmpty());
  EXPECT_THAT(judge(rules, use_of(0, 0, ""), 200s), IsEmpty())
      << "there is no pod that an Event could be about";
}

TEST_F(MemoryJudgeTest, DoesNothingWhenItIsSwitchedOff) {
  MemoryJudge rules({.policy = parse_memory_policy("ignore").value()});
  EXPECT_THAT(judge(rules, use_of(4 * kGib, 3 * kGib), 0s), IsEmpty());
  EXPECT_EQ(parse_memory_policy("evict").value(), MemoryPolicy::kEvict);
  EXPECT_FALSE(parse_memory_policy("kill"));
}

TEST_F(MemoryJudgeTest, ForgetsContainersThatAreGone) {
  MemoryJudge rules({});
  judge(rules, use_of(4 * kGib, 3 * kGib), 0s);
  EXPECT_THAT(rules.judge({}, Clock::Steady{} + 5s), IsEmpty());
  EXPECT_EQ(rules.over(), 0U);
}

class MemoryWatchTest : public ::testing::Test {
 protected:
  void look(std::uint64_t used) { watch_.check({use_of(used, 3 * kGib)}, v100s(1)); }
  std::size_t evictions() const { return cluster_.count("POST"); }
  std::string last_event() const { return node_.events().back(); }

  FakeNode node_;
  TestCluster& cluster_ = node_.cluster;
  MemoryWatch watch_{node_.context, {.policy = MemoryPolicy::kEvict, .grace = 0ms}};
};

TEST_F(MemoryWatchTest, ReportsOnThePodWhatItUsesAndWhatItRequested) {
  look(5 * kGib + kGib / 5);
  EXPECT_THAT(
      node_.events(),
      ElementsAre(AllOf(StartsWith("! GpuMemoryExceeded Pod/train-7 container main uses 5.2GiB of GPU 0 "),
                        HasSubstr("it requested 3.0GiB"), HasSubstr("will be evicted"))));
  EXPECT_EQ(watch_.counts().over, 1U);
}

TEST_F(MemoryWatchTest, EvictsThePodByItsUidThroughTheApi) {
  look(5 * kGib);
  look(5 * kGib);
  look(5 * kGib);  // the eviction is in flight and not requested again
  cluster_.run_until([&] { return watch_.counts().evicted == 1; });
  look(5 * kGib);  // the eviction was accepted, and the pod takes time to end
  cluster_.run_for(20ms);
  ASSERT_EQ(evictions(), 1U);
  EXPECT_EQ(TestCluster::path(cluster_.seen()[0]), "/api/v1/namespaces/ml/pods/train-7/eviction");
  EXPECT_THAT(cluster_.seen()[0].body, HasSubstr(R"("uid":"u-train-7")"));
  EXPECT_THAT(last_event(), StartsWith("! GpuMemoryEvicted Pod/train-7 Evicted: "));
}

TEST_F(MemoryWatchTest, RetriesWhenADisruptionBudgetForbidsIt) {
  bool forbid = true;
  cluster_.set_intercept([&](const TestCluster::Seen&) -> std::optional<http::Response> {
    return forbid ? std::optional<http::Response>(
                        {.status = 429,
                         .body = R"({"kind":"Status","status":"Failure","message":"Cannot evict pod",
                                     "reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget"}]},
                                     "code":429})"})
                  : std::nullopt;
  });
  look(5 * kGib);
  look(5 * kGib);
  cluster_.run_until([&] { return watch_.counts().refused == 1; });
  EXPECT_THAT(last_event(), AllOf(StartsWith("! GpuMemoryEvictionRefused"), HasSubstr("Cannot evict pod")));
  forbid = false;
  look(5 * kGib);
  cluster_.run_until([&] { return watch_.counts().evicted == 1; });
}

TEST_F(MemoryWatchTest, ReportsAPodThatRequestsNothingOnTheNode) {
  watch_.check({use_of(kGib, 0, "")}, v100s(1));
  EXPECT_THAT(node_.events(),
              ElementsAre(StartsWith(
                  "! UnrequestedGpuUse Node/gpu-a a pod that requests no GPU (UID u-) uses 1.0GiB")));
}

TEST_F(MemoryWatchTest, NamesThePodThatRequestsNothing) {
  alloc::PodSpec notebook;
  notebook.namespace_name = "ml";
  notebook.name = "notebook";
  notebook.uid = "u-";
  node_.pods.put(notebook, 1, true);
  watch_.check({use_of(kGib, 0, "")}, v100s(1));
  EXPECT_THAT(node_.notes.front().message,
              StartsWith("pod ml/notebook, which requests no GPU, uses 1.0GiB of GPU 0 "));
}

}  // namespace
}  // namespace tessera::agent
