// The book of this node's pods.
#include "agent/devices/node_pods.h"

#include <gtest/gtest.h>

namespace tessera::agent {
namespace {

// A pod whose container asks for 3 units of GPU memory.
alloc::PodSpec pod_named(const std::string& name) {
  alloc::PodSpec pod;
  pod.namespace_name = "ml";
  pod.name = name;
  pod.uid = "uid-" + name;
  pod.containers.resize(1);
  pod.containers[0].gpu_limits = {{alloc::GpuResource::kMemory, Quantity::units(3)}};
  return pod;
}

class NodePodsTest : public testing::Test {
 protected:
  bool has(const alloc::PodSpec& pod) const { return pods.find(pod.uid) != nullptr; }

  alloc::ResourceNames names;
  NodePods pods{names, {}};
};

// We fetch, the watch tells the end of a pod, and then our answer is read: it is of before.
TEST_F(NodePodsTest, DoesNotBringAPodBackThatTheWatchSaidHasEnded) {
  alloc::PodSpec failed = pod_named("failed");
  const alloc::PodSpec deleted = pod_named("deleted");
  pods.put(failed, 101, true);
  pods.put(deleted, 102, true);
  pods.synced();
  const alloc::PodSpec pending = failed;
  failed.phase = alloc::PodPhase::kFailed;
  pods.put(failed, 104, true);
  pods.put(pending, 103, false);
  EXPECT_FALSE(has(failed));
  kube::ObjectMeta meta;
  meta.uid = deleted.uid;
  meta.version = 106;
  pods.forget(meta);
  pods.put(deleted, 105, false);
  EXPECT_FALSE(has(deleted));
}

TEST_F(NodePodsTest, TakesAFetchedPodThatTheWatchHasNotToldYet) {
  const alloc::PodSpec before = pod_named("before");
  const alloc::PodSpec late = pod_named("late");
  pods.put(before, 101, true);
  pods.put(late, 100, false);
  EXPECT_TRUE(has(late)) << "a list is in no order";
  pods.synced();
  EXPECT_FALSE(has(late));
  pods.put(late, 100, false);
  EXPECT_TRUE(has(late));
}

// All of its containers wait, as those of a pod that is new.
TEST_F(NodePodsTest, APodThatCrashesWasTakenForOneThatNeverStarted) {
  NodePod pod{.spec = pod_named("a")};
  EXPECT_FALSE(pod.started());
  pod.spec.containers[0].ran_before = true;
  EXPECT_TRUE(pod.started());
}

TEST_F(NodePodsTest, HoldsPodsThatAskForAnyResourceThatIsServed) {
  NodePods book{names, {}, {"example.com/thing"}};
  alloc::PodSpec pod = pod_named("a");
  pod.containers[0].gpu_limits.clear();
  book.put(pod, 101, true);
  EXPECT_EQ(book.find(pod.uid), nullptr);
  EXPECT_EQ(book.name_of_any(pod.uid), "ml/a");
  pod.containers[0].other_limits = {{"example.com/thing", Quantity::units(2)}};
  book.put(pod, 102, true);
  ASSERT_NE(book.find(pod.uid), nullptr);
  EXPECT_EQ(book.asked(pod.containers[0], "example.com/thing"), 2);
  EXPECT_EQ(book.asked(pod.containers[0], "aliyun.com/gpu-mem"), 0);
  EXPECT_EQ(book.asked(pod_named("b").containers[0], "aliyun.com/gpu-mem"), 3);
}

}  // namespace
}  // namespace tessera::agent
