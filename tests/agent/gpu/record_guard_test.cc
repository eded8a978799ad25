#include "agent/gpu/record_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node_model.h"

namespace tessera::agent {
namespace {

using testing::Contains;
using testing::Not;

const std::string kRecord(alloc::key::kAllocation);

class RecordGuardTest : public testing::Test {
 protected:
  // Starts a pod that has all annotations of a Binding, with 3 units of GPU 1.
  void SetUp() override {
    pod.spec.annotations[std::string(alloc::key::kMemIdx)] = "1";
    pod.spec.annotations[std::string(alloc::key::kMemPod)] = "3";
    right = pod.spec.annotations;
    node.bind(pod);
    ASSERT_TRUE(node.admit(pod));
    ASSERT_TRUE(node.pre_start(pod, "main"));
    node.settle();
    ASSERT_EQ(node.repairs.size(), 0U);
    guard.emplace(node.context(), *node.kind, RecordGuardOptions{.every = 1ms, .retry_after = 1ms});
  }
  // The annotations of the pod as the API server has them.
  const alloc::Annotations& annotations() { return node.pods->find("uid-a")->spec.annotations; }
  bool becomes_right() {
    return node.loop.run_until(
        [this] {
          return std::ranges::all_of(right, [this](const auto& entry) {
            const auto found = annotations().find(entry.first);
            return found != annotations().end() && found->second == entry.second;
          });
        },
        5s);
  }
  // Lets the guard check everything that is waiting.
  void wait_for_checks() {
    bool over = false;
    const http::Timer timer = node.loop.after(20ms, [&] { over = true; });
    node.loop.run_until([&] { return over; }, 5s);
  }

  Node node{gpus(4)};
  Pod pod = share("a", 3, 1);
  alloc::Annotations right;
  std::optional<RecordGuard> guard;
};

TEST_F(RecordGuardTest, RepairsARecordThatWasRemovedBrokenOrRewritten) {
  const std::vector<alloc::Annotations> attacks = {
      {},
      {{kRecord, ""}},
      {{kRecord, "{"}, {std::string(alloc::key::kMemIdx), "3"}},
      share("", 3, 3).spec.annotations,
      share("", 3, 9).spec.annotations,
      {{std::string(alloc::key::kMemIdx), "3"}, {std::string(alloc::key::kMemPod), "3"}},
      {{kRecord, right.at(kRecord)}},
      {{kRecord, right.at(kRecord)}, {std::string(alloc::key::kMemIdx), "3"}},
  };
  std::uint64_t expected = 0;
  for (const alloc::Annotations& attack : attacks) {
    SCOPED_TRACE(testing::PrintToString(attack));
    pod.spec.annotations = attack;
    node.bind(pod);
    EXPECT_TRUE(becomes_right());
    node.settle();
    expected += attack.contains(kRecord) && attack.at(kRecord) == right.at(kRecord) ? 0 : 1;
    EXPECT_EQ(node.kind->counts().repaired, expected);
  }
  EXPECT_THAT(node.recorded, Contains("a GpuRecordRepaired"));
}

TEST_F(RecordGuardTest, WritesNothingWhileNothingDiffers) {
  guard->check_all();
  pod.state(alloc::ContainerState::kRunning);
  node.bind(pod);
  wait_for_checks();
  EXPECT_EQ(node.repairs.size(), 0U);
}

// Until a container has started, the annotations decide.
TEST_F(RecordGuardTest, DoesNotTouchAPodThatHasNotStarted) {
  Pod waiting = share("waiting", 3, 2);
  node.bind(waiting);
  ASSERT_TRUE(node.admit(waiting));
  waiting.spec.annotations.clear();
  node.bind(waiting);
  wait_for_checks();
  EXPECT_EQ(node.repairs.size(), 0U);
}

TEST_F(RecordGuardTest, DoesNotTouchAPodOfTheOriginalPlugin) {
  Pod old = Pod("old").main("main", 2).state(alloc::ContainerState::kRunning);
  old.spec.annotations = {{"ALIYUN_COM_GPU_MEM_IDX", "2"}, {"ALIYUN_COM_GPU_MEM_POD", "2"}};
  node.allocations().record({.pod = {"ml", "old"},
                             .pod_uid = old.spec.uid,
                             .container = "main",
                             .shares = {{.device = uuid(2), .units = 2}},
                             .ids = {{"aliyun.com/gpu-mem", {uuid(2) + "-_-0", uuid(2) + "-_-1"}}}});
  node.bind(old);
  wait_for_checks();
  EXPECT_EQ(node.repairs.size(), 0U);
}

TEST_F(RecordGuardTest, RetriesWhenTheApiServerIsBack) {
  node.api_away = true;
  pod.spec.annotations.clear();
  node.bind(pod);
  wait_for_checks();
  EXPECT_THAT(node.recorded, Not(Contains("a GpuRecordRepaired")));
  node.api_away = false;
  EXPECT_TRUE(becomes_right());
}

TEST_F(RecordGuardTest, RepairsARecordThatChangedWhileTheAgentWasDown) {
  guard.reset();
  pod.spec.annotations = share("", 3, 3).spec.annotations;
  node.restart_agent_among({pod}, node.saved);
  guard.emplace(node.context(), *node.kind, RecordGuardOptions{.every = 1ms, .retry_after = 1ms});
  guard->check_all();
  EXPECT_TRUE(becomes_right());
}

}  // namespace
}  // namespace tessera::agent
