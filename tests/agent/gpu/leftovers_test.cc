// Tests that a pod does not start while processes of a deleted pod use its GPU.
#include "agent/gpu/leftovers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "node_model.h"

namespace tessera::agent {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

const std::string kDeleted = "0f0f0f0f-0000-4000-8000-000000000001";

class LeftoversTest : public testing::Test {
 protected:
  // A pod that has 10 units of GPU 1 has started, and was then deleted with --force.
  void SetUp() override {
    deleted.spec.uid = kDeleted;
    node.bind(deleted);
    ASSERT_TRUE(node.admit(deleted));
    ASSERT_TRUE(node.pre_start(deleted, "main"));
    put_process(1, 4711, "/kubepods/burstable/pod" + kDeleted + "/" + std::string(64, 'a'));
    node.end(deleted);
  }
  void put_process(unsigned gpu, std::uint32_t pid, const std::string& cgroup) {
    const std::string process = node.proc_root / std::to_string(pid);
    std::filesystem::create_directories(process);
    ASSERT_TRUE(write_file(process + "/cgroup", "0::" + cgroup + "\n"));
    node.processes.push_back({.uuid = uuid(gpu),
                              .usage = fail(ErrorCode::kUnsupported, ""),
                              .processes = std::vector{gpu::GpuProcess{.pid = pid, .used_bytes = {}}}});
  }
  Status start(const Pod& pod) {
    node.bind(pod);
    EXPECT_TRUE(node.admit(pod));
    return node.pre_start(pod, "main");
  }

  Node node{gpus(4)};
  Pod deleted = share("deleted", 10, 1);
};

TEST_F(LeftoversTest, APodWaitsForTheProcessesOfADeletedPod) {
  const Pod next = share("next", 10, 1);
  const Status blocked = start(next);
  ASSERT_FALSE(blocked);
  EXPECT_THAT(blocked.error().text(), AllOf(HasSubstr("process 4711"), HasSubstr("ml/deleted")));
  EXPECT_THAT(node.recorded, Contains("next GpuStillInUse"));
  EXPECT_FALSE(node.allocations().find("uid-next", "main")->started);
  node.processes.clear();
  EXPECT_TRUE(node.pre_start(next, "main"));
}

TEST_F(LeftoversTest, APodStartsAtOnceIfThereIsRoomNextToTheProcess) {
  EXPECT_TRUE(start(share("small", 6, 1)));
  EXPECT_TRUE(start(share("elsewhere", 16, 2)));
  EXPECT_EQ(node.samples, 0) << "the driver need not be asked";
}

TEST_F(LeftoversTest, OtherProcessesOfTheMachineDoNotBlockAPod) {
  node.processes.clear();
  put_process(1, 42, "/user.slice/user-0.slice/session-1.scope");
  put_process(1, 43, "/kubepods/pod0f0f0f0f-0000-4000-8000-000000000002/" + std::string(64, 'b'));
  put_process(2, 44, "/kubepods/pod" + kDeleted + "/" + std::string(64, 'c'));  // on another GPU
  EXPECT_TRUE(start(share("next", 10, 1)));
  EXPECT_EQ(node.samples, 1);
}

TEST_F(LeftoversTest, ARestartingContainerDoesNotWait) {
  node.processes.clear();
  const Pod next = share("next", 10, 1);
  ASSERT_TRUE(start(next));
  put_process(1, 4711, "/kubepods/pod" + kDeleted + "/" + std::string(64, 'a'));
  EXPECT_TRUE(node.pre_start(next, "main"));
}

TEST_F(LeftoversTest, KubeletGetsAnAnswerIfTheDriverHangs) {
  node.driver_hangs = true;
  const Pod next = share("next", 10, 1);
  const Status blocked = start(next);
  ASSERT_FALSE(blocked);
  EXPECT_THAT(blocked.error().text(), HasSubstr("the driver does not report"));
  node.driver_hangs = false;
  node.processes.clear();
  EXPECT_TRUE(node.pre_start(next, "main"));
}

// The pod was deleted while the agent did not run.
TEST_F(LeftoversTest, KnowsFromTheStateFileWhichPodHadTheGpu) {
  Node other(gpus(4));
  other.bind(deleted);
  ASSERT_TRUE(other.admit(deleted));
  ASSERT_TRUE(other.pre_start(deleted, "main"));
  other.settle();
  node.restart_agent_among({}, other.saved);
  EXPECT_FALSE(start(share("next", 10, 1)));
}

}  // namespace
}  // namespace tessera::agent
