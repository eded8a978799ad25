// Tests that a pod keeps the GPUs with which it has started, whatever its annotations say later, and
// that no other pod gets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node_model.h"

namespace tessera::agent {
namespace {

using testing::Contains;
using testing::HasSubstr;

const std::string kRecord(alloc::key::kAllocation);

// Returns a pod with a whole GPU and a record that names this GPU.
Pod whole_gpu(const std::string& name, unsigned gpu) {
  return Pod(name).whole("main", 1).on("main", {{gpu, 0}});
}

// Changes that a tenant can make to the annotations of a running pod whose record names GPU 1.
const std::map<std::string, std::function<void(alloc::Annotations&)>> kAttacks = {
    {"removed", [](alloc::Annotations& annotations) { annotations.clear(); }},
    {"emptied", [](alloc::Annotations& annotations) { annotations[kRecord] = ""; }},
    {"broken", [](alloc::Annotations& annotations) { annotations[kRecord] = "{"; }},
    {"other GPU",
     [](alloc::Annotations& annotations) { annotations[kRecord] = whole_gpu("", 3).record.json(); }},
    {"GPU that is gone",
     [](alloc::Annotations& annotations) { annotations[kRecord] = whole_gpu("", 9).record.json(); }},
    {"originals",
     [](alloc::Annotations& annotations) { annotations = {{std::string(alloc::key::kWholeGroup), "3"}}; }},
};

TEST(GivenGpus, NoOtherPodGetsTheGpuOfARunningPodWhoseRecordWasChanged) {
  for (const auto& [name, attack] : kAttacks) {
    for (const bool restarts : {false, true}) {
      SCOPED_TRACE(name + (restarts ? " while the agent restarts" : ""));
      Node node(gpus(4));
      Pod first = whole_gpu("first", 1);
      node.bind(first);
      ASSERT_EQ(sees(node.admit(first)), uuid(1));
      ASSERT_TRUE(node.pre_start(first, "main", GpuResource::kWhole));
      attack(first.spec.annotations);
      if (restarts) {
        node.settle();
        node.restart_agent_among({first}, node.saved);
      } else {
        node.bind(first);  // the new version arrives before kubelet has reported the start
      }
      const Pod second = share("second", 3, 1);
      node.bind(second);
      ASSERT_TRUE(node.admit(second));
      const Status blocked = node.pre_start(second, "main");
      ASSERT_FALSE(blocked);
      EXPECT_THAT(blocked.error().text(), HasSubstr("pod ml/first and others hold all of its 16 units"));
      EXPECT_THAT(node.recorded, Contains("second GpuOvercommitted"));
      node.end(first);
      EXPECT_TRUE(node.pre_start(second, "main"));
    }
  }
}

TEST(GivenGpus, ARunningPodWhoseRecordWasChangedRestartsWithItsGpu) {
  for (const auto& [name, attack] : kAttacks) {
    SCOPED_TRACE(name);
    Node node(gpus(4));
    Pod pod = whole_gpu("a", 1);
    node.bind(pod);
    ASSERT_EQ(sees(node.admit(pod)), uuid(1));
    ASSERT_TRUE(node.pre_start(pod, "main", GpuResource::kWhole));
    attack(pod.spec.annotations);
    pod.spec.containers[0].ran_before = true;
    node.bind(pod);
    const Status restarted = node.pre_start(pod, "main", GpuResource::kWhole);
    EXPECT_TRUE(restarted) << restarted.error().text();
    EXPECT_EQ(node.allocations().find("uid-a", "main")->shares.front().device, uuid(1));
  }
}

// An older agent wrote the state file, without the mark that the container has started.
TEST(GivenGpus, KnowsFromTheStatusThatAContainerHasStarted) {
  Node node(gpus(4));
  Pod first = whole_gpu("first", 1);
  node.bind(first);
  ASSERT_TRUE(node.admit(first));
  node.settle();
  const std::string older = node.saved;
  ASSERT_THAT(older, testing::Not(HasSubstr("started")));
  first.state(alloc::ContainerState::kRunning).spec.annotations.clear();
  const Pod second = share("second", 3, 1);
  node.restart_agent_among({first, second}, older);
  ASSERT_TRUE(node.admit(second));
  EXPECT_FALSE(node.pre_start(second, "main"));
}

// A pod that was created with a node name and a record, and whose first container has no GPU. Once
// that container runs, the pod does not count as started.
Pod forged_pod(const std::string& name) {
  Pod pod = Pod(name).init("sleep", 0).main("main", 3).on("main", {{1, 3}});
  pod.spec.containers[0].state = alloc::ContainerState::kRunning;
  return pod;
}

TEST(GivenGpus, AContainerWithoutAGpuDoesNotMakeAForgedRecordValid) {
  Node node(gpus(4));
  const Pod victim = whole_gpu("victim", 1);
  node.bind(victim);
  ASSERT_TRUE(node.admit(victim));
  ASSERT_TRUE(node.pre_start(victim, "main", GpuResource::kWhole));
  Pod forged = forged_pod("forged");
  forged.spec.containers[0].state = alloc::ContainerState::kNotStarted;
  node.bind(forged);
  ASSERT_TRUE(node.admit(forged));
  for (const auto state : {alloc::ContainerState::kRunning, alloc::ContainerState::kTerminated}) {
    forged.spec.containers[0].state = state;
    node.bind(forged);
    EXPECT_FALSE(node.pre_start(forged, "main"));
  }
  EXPECT_THAT(node.recorded, Contains("forged GpuOvercommitted"));
}

TEST(GivenGpus, AForgedPodDoesNotHoldBackAnEarlierPod) {
  Node node(gpus(4));
  const Pod earlier = whole_gpu("earlier", 1);  // pulls its image
  node.bind(earlier);
  ASSERT_TRUE(node.admit(earlier));
  Pod forged = forged_pod("forged");
  forged.spec.containers[0].state = alloc::ContainerState::kNotStarted;
  node.bind(forged);
  ASSERT_TRUE(node.admit(forged));
  forged.spec.containers[0].state = alloc::ContainerState::kRunning;
  node.bind(forged);
  EXPECT_FALSE(node.pre_start(forged, "main"));
  EXPECT_TRUE(node.pre_start(earlier, "main", GpuResource::kWhole));
}

// With GPUs in both containers, the record is rewritten after the init container has started.
TEST(GivenGpus, ALaterContainerKeepsTheGpuOfThePod) {
  Node node(gpus(4));
  const Pod victim = share("victim", 16, 2);
  node.bind(victim);
  ASSERT_TRUE(node.admit(victim));
  ASSERT_TRUE(node.pre_start(victim, "main"));
  Pod pod = Pod("a").init("init", 3).main("main", 3).on("init", {{1, 3}}).on("main", {{1, 3}});
  node.bind(pod);
  ASSERT_EQ(sees(node.admit(pod)), uuid(1));
  ASSERT_TRUE(node.pre_start(pod, "init"));
  pod.spec.annotations[kRecord] =
      Pod("").main("init", 3).on("init", {{1, 3}}).on("main", {{2, 3}}).record.json();
  pod.spec.containers[0].state = alloc::ContainerState::kTerminated;
  node.bind(pod);
  ASSERT_TRUE(node.pre_start(pod, "main"));
  EXPECT_EQ(node.allocations().find("uid-a", "main")->shares.front().device, uuid(1));
}

// After a restart of the agent, the API server has listed only one of two pods.
TEST(GivenGpus, CountsAPodThatIsNotListedYet) {
  Node node(gpus(4));
  const Pod first = whole_gpu("first", 1);
  const Pod second = share("second", 3, 1);
  node.bind(first);
  ASSERT_TRUE(node.admit(first));
  ASSERT_TRUE(node.pre_start(first, "main", GpuResource::kWhole));
  node.settle();
  node.restart_agent(node.saved);
  node.bind(second);
  ASSERT_TRUE(node.admit(second));
  const Status blocked = node.pre_start(second, "main");
  ASSERT_FALSE(blocked);
  EXPECT_THAT(blocked.error().text(), HasSubstr("ml/first"));
  node.pods->synced();  // the first pod has ended
  EXPECT_TRUE(node.pre_start(second, "main"));
}

// The API server is down, the agent restarts, and a container crashes.
TEST(GivenGpus, ACrashedContainerRestartsBeforeTheApiServerHasListedItsPod) {
  Node node(gpus(4));
  const Pod pod = share("a", 3, 1);
  const Pod waiting = share("waiting", 3, 2);
  for (const Pod& each : {pod, waiting}) {
    node.bind(each);
    ASSERT_TRUE(node.admit(each));
  }
  ASSERT_TRUE(node.pre_start(pod, "main"));
  node.settle();
  node.api_away = true;
  node.restart_agent(node.saved);
  const Status restarted = node.pre_start(pod, "main");
  EXPECT_TRUE(restarted) << restarted.error().text();
  EXPECT_FALSE(node.pre_start(waiting, "main")) << "it has never started, so its record must be read";

  alloc::Inventory unhealthy = gpus(4);
  unhealthy.gpus[1].unhealthy = "XID 79";
  node.set_inventory(unhealthy);
  EXPECT_THAT(node.pre_start(pod, "main").error().text(), HasSubstr("XID 79"));
  node.set_inventory(gpus(1));
  EXPECT_THAT(node.pre_start(pod, "main").error().text(), HasSubstr(uuid(1) + " is not on this node"));
  node.set_inventory(gpus(4));
  node.has_checkpoint = false;
  EXPECT_FALSE(node.pre_start(pod, "main")) << "kubelet may have assigned the IDs to another pod";
  node.has_checkpoint = true;
  node.pods->synced();
  EXPECT_FALSE(node.pre_start(pod, "main")) << "the pod has ended";
}

TEST(GivenGpus, APodWhoseRecordCannotBeWrittenHasNotStarted) {
  Node node(gpus(4));
  node.has_get = false;
  const Pod rejected = share("rejected", 3, 2);
  const Pod served = share("served", 3, 1);
  node.bind(rejected);
  node.bind(served);
  ASSERT_EQ(sees(node.admit(served)), uuid(2)) << "the agent guesses";
  node.api_away = true;
  EXPECT_FALSE(node.pre_start(served, "main"));
  EXPECT_FALSE(node.allocations().find("uid-served", "main")->started) << "the write failed";
  node.api_away = false;
  EXPECT_TRUE(node.pre_start(served, "main"));
  EXPECT_TRUE(node.allocations().find("uid-served", "main")->started);
}

}  // namespace
}  // namespace tessera::agent
