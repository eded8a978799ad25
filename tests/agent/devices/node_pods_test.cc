#include "agent/devices/node_pods.h"

#include <gtest/gtest.h>

#include "agent/devices/allocations.h"

namespace tessera::agent {
namespace {

// A pod whose container requests 3 units of GPU memory.
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
  NodePods pods{names};
};

// The watch reports the end of a pod while a fetch is in flight, so the fetched version is older.
TEST_F(NodePodsTest, IgnoresAFetchedPodThatTheWatchHasReportedAsEnded) {
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

TEST_F(NodePodsTest, AcceptsAFetchedPodThatTheWatchHasNotDelivered) {
  const alloc::PodSpec before = pod_named("before");
  const alloc::PodSpec late = pod_named("late");
  pods.put(before, 101, true);
  pods.put(late, 100, false);
  EXPECT_TRUE(has(late)) << "a list has no defined order";
  pods.synced();
  EXPECT_FALSE(has(late));
  pods.put(late, 100, false);
  EXPECT_TRUE(has(late));
}

// All containers of such a pod are waiting, like those of a new pod.
TEST_F(NodePodsTest, DistinguishesACrashingPodFromOneThatNeverStarted) {
  NodePod pod{.spec = pod_named("a")};
  EXPECT_FALSE(pod.started());
  pod.spec.containers[0].ran_before = true;
  EXPECT_TRUE(pod.started());
}

TEST_F(NodePodsTest, KeepsPodsThatRequestAnyServedResource) {
  NodePods served{names, {"example.com/thing"}};
  alloc::PodSpec pod = pod_named("a");
  pod.containers[0].gpu_limits.clear();
  served.put(pod, 101, true);
  EXPECT_EQ(served.find(pod.uid), nullptr);
  EXPECT_EQ(served.name_of_any(pod.uid), "ml/a");
  pod.containers[0].other_limits = {{"example.com/thing", Quantity::units(2)}};
  served.put(pod, 102, true);
  ASSERT_NE(served.find(pod.uid), nullptr);
  EXPECT_EQ(served.requested(pod.containers[0], "example.com/thing"), 2);
  EXPECT_EQ(served.requested(pod.containers[0], "aliyun.com/gpu-mem"), 0);
  EXPECT_EQ(served.requested(pod_named("b").containers[0], "aliyun.com/gpu-mem"), 3);
}

TEST_F(NodePodsTest, ReadsPodsWithAResourceThatWasAddedLater) {
  pods.add_resource("example.com/gadget");
  pods.add_resource("example.com/gadget");
  alloc::PodSpec pod = pod_named("a");
  pod.containers[0].gpu_limits.clear();
  pod.containers[0].other_limits = {{"example.com/gadget", Quantity::units(1)}};
  pods.put(pod, 101, true);
  EXPECT_TRUE(has(pod));
}

class Listener final : public PodListener {
 public:
  void pod_changed(const NodePod& pod) override { heard.push_back("changed " + pod.text()); }
  void pod_removed(const std::string& pod_uid) override { heard.push_back("removed " + pod_uid); }
  void pods_synced() override { heard.emplace_back("synced"); }

  std::vector<std::string> heard;
};

TEST_F(NodePodsTest, NotifiesListenersUntilTheyAreRemoved) {
  Listener first;
  Listener second;
  pods.add_listener(first);
  pods.add_listener(second);
  const alloc::PodSpec pod = pod_named("a");
  pods.put(pod, 101, true);
  pods.synced();
  pods.remove_listener(second);
  pods.remove(pod.uid);
  pods.remove(pod.uid);
  EXPECT_EQ(first.heard, (std::vector<std::string>{"changed ml/a", "synced", "removed uid-a"}));
  EXPECT_EQ(second.heard, (std::vector<std::string>{"changed ml/a", "synced"}));
}

// Devices of another kind may have been allocated to the pod first.
TEST_F(NodePodsTest, KnowsFromAnyKindThatKubeletHasBegunToAdmitAPod) {
  Allocations gpus({});
  Allocations things({});
  pods.add_allocations(gpus);
  pods.add_allocations(things);
  EXPECT_FALSE(pods.admission_begun("uid-a"));
  things.record({.pod = {"ml", "a"}, .pod_uid = "uid-a", .container = "main"});
  EXPECT_TRUE(pods.admission_begun("uid-a"));
  pods.remove_allocations(things);
  EXPECT_FALSE(pods.admission_begun("uid-a"));
}

}  // namespace
}  // namespace tessera::agent
