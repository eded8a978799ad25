// Tests which GPUs a container sees when it starts, with strategies that can update them after the
// admission and with strategies that cannot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node_model.h"

namespace tessera::agent {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Keeps one file per CDI name, like the strategy cdi, or does not update after the admission, like
// the strategy devices.
class Recording final : public DeliveryStrategy {
 public:
  explicit Recording(bool can_update = true) : can_update_(can_update) {}

  [[nodiscard]] bool delivers_devices() const override { return false; }
  Status add(const ContainerEdits& container, ContainerResponse& response) override {
    last_gpus_ = gpus_of(container);
    for (const std::string& name : container.cdi_names) {
      if (can_update_) {
        response.cdi_devices.push_back("tessera.io/gpu=" + name);
        files[name] = gpus_of(container);
      }
    }
    return failure.empty() ? Status() : Status(fail(ErrorCode::kUnavailable, failure));
  }
  Status before_start(const ContainerEdits& container) override {
    started.push_back(container.container);
    fixed_at_start = container.fixed;
    for (const std::string& name : container.cdi_names) {
      files[name] = gpus_of(container);
    }
    return failure.empty() ? Status() : Status(fail(ErrorCode::kUnavailable, failure));
  }
  [[nodiscard]] std::string fixed(const Edits& /*edits*/) const override {
    return can_update_ ? "" : "devices of " + last_gpus_;
  }
  [[nodiscard]] bool can_update() const override { return can_update_; }
  void remove_unneeded(const Needed& needed) override {
    std::erase_if(files, [&](const auto& entry) {
      return !needed(entry.first.substr(0, entry.first.find('_')), entry.first);
    });
  }

  std::string failure;
  std::string fixed_at_start;
  std::vector<std::string> started;          // containers
  std::map<std::string, std::string> files;  // name -> GPUs

 private:
  static std::string gpus_of(const ContainerEdits& container) {
    return container.env.at("NVIDIA_VISIBLE_DEVICES");
  }
  const bool can_update_;
  std::string last_gpus_;
};

class StartGateTest : public testing::Test {
 protected:
  // Returns what the container runtime finds under the CDI name in kubelet's checkpoint.
  std::string finds(const Pod& pod, const std::string& container = "main") {
    const auto file = strategy.files.find(node.cdi_names[pod.spec.name + "/" + container]);
    return file == strategy.files.end() ? "unresolvable" : file->second;
  }

  Recording strategy;
  Node node{gpus(4), &strategy};
};

TEST_F(StartGateTest, DeliversTheGpuOfALateDecision) {
  Pod pod = Pod("a").main("main", 3);
  node.bind(pod);
  ASSERT_EQ(sees(node.admit(pod)), "void");
  EXPECT_FALSE(node.pre_start(pod, "main"));
  pod.on("main", {{3, 3}});
  node.bind(pod);  // a new version, with a record
  EXPECT_TRUE(node.pre_start(pod, "main"));
  EXPECT_EQ(finds(pod), uuid(3));
  EXPECT_EQ(node.allocations().find("uid-a", "main")->shares.front().device, uuid(3));
  node.end(pod);
  EXPECT_THAT(strategy.files, IsEmpty());
}

TEST_F(StartGateTest, RecoversTheCdiNameOfAContainerWhenTheStateFileIsLost) {
  const Pod first = share("first", 3, 2);
  const Pod second = share("second", 3, 1);
  node.admit_swapped(first, second);
  node.restart_agent_among({first, second});
  EXPECT_TRUE(node.pre_start(second, "main"));
  EXPECT_TRUE(node.pre_start(first, "main"));
  EXPECT_EQ(node.cdi_names["second/main"], "uid-first_main");
  EXPECT_EQ(finds(second), uuid(1));
  EXPECT_EQ(finds(first), uuid(2));
}

// The container was admitted under another strategy, with variables and without a CDI name. kubelet
// would not use a file with a new name.
TEST_F(StartGateTest, DoesNotUpdateAContainerAdmittedWithoutACdiName) {
  Recording fixed(false);
  node.restart_agent(Node::kEmptyState, &fixed);
  Pod pod = Pod("a").main("main", 3);
  node.bind(pod);
  ASSERT_EQ(sees(node.admit(pod)), "void");
  for (const bool state_kept : {true, false}) {
    pod = Pod("a").main("main", 3).on("main", {{3, 3}});
    node.restart_agent_among({pod}, state_kept ? node.saved : Node::kEmptyState, &strategy);
    const Status blocked = node.pre_start(pod, "main");
    ASSERT_FALSE(blocked) << state_kept;
    EXPECT_THAT(blocked.error().text(), HasSubstr("delete the pod"));
  }
}

TEST_F(StartGateTest, BlocksAContainerWhoseDevicesAreNotPrepared) {
  strategy.failure = "no libcuda.so.1 below /run/nvidia/driver";
  const Pod pod = share("a", 3, 2);
  node.bind(pod);
  EXPECT_TRUE(node.admit(pod)) << "an error in Allocate would fail the pod permanently";
  const Status blocked = node.pre_start(pod, "main");
  ASSERT_FALSE(blocked);
  EXPECT_THAT(blocked.error().text(), HasSubstr("libcuda"));
  strategy.failure.clear();
  EXPECT_TRUE(node.pre_start(pod, "main"));
}

// kubelet has no Get and does not admit two pods of equal size in the order they were bound, so
// each container has the CDI name of the other.
TEST_F(StartGateTest, WritesTheFileOfTheCdiNameThatTheContainerHas) {
  const Pod first = share("first", 3, 2);
  const Pod second = share("second", 3, 1);
  node.admit_swapped(first, second);
  ASSERT_EQ(node.cdi_names["second/main"], "uid-first_main");
  EXPECT_TRUE(node.pre_start(second, "main"));
  EXPECT_TRUE(node.pre_start(first, "main"));
  EXPECT_EQ(finds(second), uuid(1));
  EXPECT_EQ(finds(first), uuid(2));
  node.end(first);
  EXPECT_EQ(finds(second), uuid(1))
      << "a restarting container needs the file, although its name has another UID";
  node.settle();
  node.restart_agent(node.saved);
  node.bind(second);
  node.pods->synced();
  EXPECT_EQ(finds(second), uuid(1));
  EXPECT_TRUE(node.pre_start(second, "main"));
  node.end(second);
  EXPECT_THAT(strategy.files, IsEmpty());
}

TEST_F(StartGateTest, KeepsTheNameOfAnEndedPodIfAnotherContainerHasIt) {
  node.has_get = false;
  const Pod rejected = share("rejected", 3, 2);
  const Pod served = share("served", 3, 1);
  node.bind(rejected);
  node.bind(served);
  ASSERT_TRUE(node.admit(served));
  node.end(rejected);
  ASSERT_TRUE(node.pre_start(served, "main"));
  EXPECT_EQ(finds(served), uuid(1));
}

TEST_F(StartGateTest, AssignsNoCdiNameTwice) {
  const Pod first = share("first", 3, 2);
  const Pod second = share("second", 3, 1);
  node.bind(first);
  node.bind(second);
  node.has_get = false;
  ASSERT_TRUE(node.admit(second));  // confused with the first, so it gets the name of the first
  node.has_get = true;
  ASSERT_TRUE(node.admit(first));
  EXPECT_NE(node.cdi_names["first/main"], node.cdi_names["second/main"]);
  EXPECT_TRUE(node.pre_start(second, "main"));
  EXPECT_TRUE(node.pre_start(first, "main"));
  EXPECT_EQ(finds(second), uuid(1));
  EXPECT_EQ(finds(first), uuid(2));
}

TEST_F(StartGateTest, DeliversTheGpuToAPodThatWasUnknownAtItsAdmission) {
  const Pod stranger = share("stranger", 3, 3);
  node.api_away = true;
  ASSERT_EQ(sees(node.admit(stranger)), "void");
  EXPECT_FALSE(node.pre_start(stranger, "main"));
  node.bind(stranger);
  EXPECT_TRUE(node.pre_start(stranger, "main"));
  EXPECT_EQ(finds(stranger), uuid(3));
  node.end(stranger);
  EXPECT_THAT(strategy.files, IsEmpty());
}

// The init container and the main container use the same IDs, one after the other.
TEST_F(StartGateTest, AssumesThatTheFirstContainerThatDoesNotRunStarts) {
  Pod pod = Pod("a").init("z", 3).main("a", 3).on("z", {{1, 3}}).on("a", {{1, 3}});
  node.bind(pod);
  ASSERT_TRUE(node.admit(pod));
  ASSERT_EQ(node.used(pod, "z"), node.used(pod, "a"));
  EXPECT_TRUE(node.pre_start(pod, "z"));
  EXPECT_EQ(strategy.started.front(), "z");
  pod.spec.containers[0].state = alloc::ContainerState::kTerminated;
  node.bind(pod);
  strategy.started.clear();
  EXPECT_TRUE(node.pre_start(pod, "a"));
  EXPECT_EQ(strategy.started.front(), "a");
}

TEST_F(StartGateTest, PreparesAContainerBeforeTheEndOfItsInitContainerIsReported) {
  const Pod pod = Pod("a").init("z", 3).main("a", 3).on("z", {{1, 3}}).on("a", {{1, 3}});
  node.bind(pod);
  ASSERT_TRUE(node.admit(pod));
  strategy.files.clear();  // as after a reboot
  EXPECT_TRUE(node.pre_start(pod, "a"));
  EXPECT_EQ(finds(pod, "a"), uuid(1));
}

// kubelet updates the status of a crashing pod repeatedly, so the pod has the newer version after a
// re-list.
TEST_F(StartGateTest, DoesNotBlockAnOlderPodAsOvercommittedWhenItCrashes) {
  Pod first = share("first", 10, 1);
  const Pod forged = share("forged", 10, 1);
  node.bind(first);
  ASSERT_TRUE(node.admit(first));
  EXPECT_TRUE(node.pre_start(first, "main"));
  node.bind(forged);
  ASSERT_TRUE(node.admit(forged));
  first.spec.containers[0].ran_before = true;  // the container waits in CrashLoopBackOff
  node.restart_agent(node.saved);
  node.bind(forged);
  node.bind(first);
  EXPECT_TRUE(node.pre_start(first, "main"));
  EXPECT_FALSE(node.pre_start(forged, "main")) << "this pod never started";
}

// A tenant rewrites the record of a pod that has started, and then lets its container crash.
TEST_F(StartGateTest, DoesNotMoveAStartedPodToTheGpuOfARewrittenRecord) {
  for (const bool restarts : {false, true}) {
    const Pod victim = share("victim", 16, 2);
    node.bind(victim);
    ASSERT_TRUE(node.admit(victim));
    ASSERT_TRUE(node.pre_start(victim, "main"));
    Pod pod = share("a", 3, 1);
    node.bind(pod);
    ASSERT_TRUE(node.admit(pod));
    ASSERT_TRUE(node.pre_start(pod, "main"));
    for (const unsigned other : {2U, 3U}) {
      pod.spec.annotations = share("", 3, other).spec.annotations;
      pod.spec.containers[0].ran_before = true;
      if (restarts) {
        node.settle();
        node.restart_agent_among({victim, pod}, node.saved);
      } else {
        node.bind(pod);
      }
      EXPECT_TRUE(node.pre_start(pod, "main"));
      EXPECT_EQ(finds(pod), uuid(1)) << other;
    }
    node.end(victim);
    node.end(pod);
  }
}

// Two containers with CDI names. The record changes after the first of them has started.
TEST_F(StartGateTest, AllContainersKeepTheGpuThatWasDecidedAtTheFirstStart) {
  Pod pod = Pod("a").main("x", 3).main("y", 3);
  node.bind(pod);
  ASSERT_EQ(sees(node.admit(pod), "y"), "void");
  pod.on("x", {{1, 3}}).on("y", {{1, 3}});
  node.bind(pod);
  ASSERT_TRUE(node.pre_start(pod, "x"));
  pod.record.containers.clear();
  pod.on("x", {{2, 3}}).on("y", {{2, 3}});
  node.bind(pod);
  ASSERT_TRUE(node.pre_start(pod, "y"));
  EXPECT_EQ(finds(pod, "y"), uuid(1));
}

// The record of a pod that was bound first is rewritten before the pod has started.
TEST_F(StartGateTest, ARewrittenRecordComesAfterTheRecordsOfOtherPods) {
  Pod early = share("early", 3, 1);
  node.bind(early);
  ASSERT_TRUE(node.admit(early));
  const Pod victim = share("victim", 16, 2);
  node.bind(victim);
  ASSERT_TRUE(node.admit(victim));
  early.spec.annotations = share("", 3, 2).spec.annotations;
  node.bind(early);
  EXPECT_FALSE(node.pre_start(early, "main"));
  EXPECT_TRUE(node.pre_start(victim, "main"));
}

// kubelet keeps the response without driver files for the lifetime of the pod.
TEST(FixedDelivery, BlocksAContainerWithoutDevicesAlsoAfterARestartOfTheAgent) {
  Recording strategy(false);
  strategy.failure = "no libcuda.so.1 below /run/nvidia/driver";
  Node node(gpus(4), &strategy);
  const Pod pod = share("a", 3, 2);
  node.bind(pod);
  ASSERT_TRUE(node.admit(pod));
  strategy.failure.clear();
  node.restart_agent(node.saved);
  node.bind(pod);
  node.pods->synced();
  const Status blocked = node.pre_start(pod, "main");
  ASSERT_FALSE(blocked) << "the container would start without a GPU";
  EXPECT_THAT(blocked.error().text(), HasSubstr("libcuda"));
  EXPECT_THAT(blocked.error().text(), HasSubstr("delete the pod"));
  EXPECT_THAT(node.recorded, Contains("a GpuSetupFailed"));
}

TEST(FixedDelivery, PassesTheFixedPathsToTheStrategyAfterARestart) {
  Recording strategy(false);
  Node node(gpus(4), &strategy);
  const Pod pod = share("a", 3, 2);
  node.bind(pod);
  ASSERT_TRUE(node.admit(pod));
  node.restart_agent(node.saved);
  node.bind(pod);
  ASSERT_TRUE(node.pre_start(pod, "main"));
  EXPECT_EQ(strategy.fixed_at_start, "devices of " + uuid(2));
}

// All containers of a pod were confused with those of another pod, and kubelet reveals it later.
TEST(FixedDelivery, RecoversTheActualGpuOfEachContainer) {
  Node node(gpus(4));
  const auto two = [](const std::string& name, unsigned gpu) {
    return Pod(name).main("x", 3).main("y", 3).on("x", {{gpu, 3}}).on("y", {{gpu, 3}});
  };
  const Pod first = two("first", 2);
  const Pod second = two("second", 1);
  node.bind(first);
  node.bind(second);
  node.has_get = false;
  const auto envs = node.admit(second);
  ASSERT_EQ(sees(envs, "x"), uuid(2));
  ASSERT_EQ(sees(envs, "y"), uuid(2));
  node.has_get = true;
  ASSERT_TRUE(node.admit(first));
  for (const char* container : {"x", "y"}) {
    EXPECT_EQ(node.allocations().find("uid-second", container)->shares.front().device, uuid(2)) << container;
  }
}

}  // namespace
}  // namespace tessera::agent
