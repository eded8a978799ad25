// Tests the admission and start of containers: each one gets the GPUs of its pod's record.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../base/thread_cpu.h"
#include "node_model.h"

namespace tessera::agent {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Admission, AllocatesTheDecidedGpuAndPrefersItsIds) {
  Node node(gpus(4));
  const Pod pod = share("a", 3, 2);
  node.bind(pod);
  const auto envs = node.admit(pod);
  EXPECT_EQ(sees(envs), uuid(2));
  EXPECT_EQ(envs->at("main").at("ALIYUN_COM_GPU_MEM_IDX"), "2");
  EXPECT_EQ(envs->at("main").at("ALIYUN_COM_GPU_MEM_POD"), "3");
  EXPECT_EQ(envs->at("main").at("ALIYUN_COM_GPU_MEM_CONTAINER"), "3");
  EXPECT_EQ(envs->at("main").at("ALIYUN_COM_GPU_MEM_DEV"), "16");
  EXPECT_THAT(node.gpus_by_ids(pod, "main"), ElementsAre(uuid(2)));
  EXPECT_TRUE(node.pre_start(pod, "main"));
  EXPECT_EQ(node.admission->counts().mismatched_ids, 0U);
  EXPECT_EQ(node.fetches, 0);
}

TEST(Admission, DistinguishesTwoQueuedPodsOfEqualSize) {
  Node node(gpus(4));
  const Pod first = share("first", 3, 2);
  const Pod second = share("second", 3, 1);
  node.bind(first);
  node.bind(second);
  // kubelet admits them in the opposite order, as it may do after a restart.
  EXPECT_EQ(sees(node.admit(second)), uuid(1));
  EXPECT_EQ(sees(node.admit(first)), uuid(2));
  EXPECT_EQ(node.admission->lookup().counts().confirmed, 2U);
}

TEST(Admission, AsksKubeletOnceIfTheBindOrderIsRight) {
  Node node(gpus(4));
  std::vector<Pod> pods;
  for (unsigned i = 0; i < 20; ++i) {
    pods.push_back(share("p" + std::to_string(i), 3, i % 4));
    node.bind(pods.back());
  }
  for (unsigned i = 0; i < 20; ++i) {
    EXPECT_EQ(sees(node.admit(pods[i])), uuid(i % 4)) << i;
  }
  EXPECT_EQ(node.gets, 20);
}

TEST(Admission, AsksTheApiServerWhenTheWatchIsLate) {
  Node node(gpus(4));
  const Pod queued = share("queued", 3, 1);
  const Pod late = share("late", 3, 3);
  node.bind(queued);
  node.bind_unseen(late);
  EXPECT_EQ(sees(node.admit(late)), uuid(3));
  EXPECT_EQ(node.fetches, 1);
  EXPECT_EQ(sees(node.admit(queued)), uuid(1));
}

TEST(Admission, AsksKubeletOnceForEachFetchedPod) {
  Node node(gpus(4));
  std::vector<Pod> pods;
  for (unsigned i = 0; i < 6; ++i) {
    pods.push_back(share("p" + std::to_string(i), 3, i % 4));
    node.bind_unseen(pods.back());
  }
  EXPECT_EQ(sees(node.admit(pods[5])), uuid(1));
  EXPECT_EQ(node.gets, 6) << "one call per pod, because kubelet limits the rate";
}

// A pod has ended, and kubelet allocates its IDs to the next one. The API server reports the new
// pod before it reports the end of the old one.
TEST(Admission, PrefersTheIdsOfTheDecidedGpuEvenIfAnEndedPodSeemsToHoldThem) {
  Node node(gpus(2));
  Pod before = share("before", 16, 0);
  node.bind(before);
  ASSERT_TRUE(node.admit(before));
  before.state(alloc::ContainerState::kRunning);
  node.bind(before);
  node.used(before, "main").clear();
  const Pod next = share("next", 16, 0);
  node.bind_unseen(next);
  ASSERT_EQ(sees(node.admit(next)), uuid(0));
  EXPECT_THAT(node.gpus_by_ids(next, "main"), ElementsAre(uuid(0)));
  node.end(before);
  EXPECT_TRUE(node.pre_start(next, "main"));
}

TEST(Admission, WaitsForTheWatchWhenTheApiServerDoesNotAnswer) {
  Node node(gpus(4));
  const Pod late = share("late", 3, 3);
  node.api_away = true;
  const auto timer = node.loop.after(30ms, [&] { node.bind(late); });
  EXPECT_EQ(sees(node.admit(late)), uuid(3));
}

TEST(Admission, BlocksAnUnknownPod) {
  Node node(gpus(4));
  const Pod stranger = share("stranger", 3, 3);
  node.api_away = true;
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(sees(node.admit(stranger)), "void");
  EXPECT_LT(std::chrono::steady_clock::now() - begun,
            5s);  // two calls of at most 500 ms each, and a margin for busy machines
  const Status unknown = node.pre_start(stranger, "main");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().text(), HasSubstr("not known yet"));
  // The API server is available again. The environment can no longer be changed, so a new pod is
  // needed.
  node.bind(stranger);
  const Status known = node.pre_start(stranger, "main");
  ASSERT_FALSE(known);
  EXPECT_THAT(known.error().text(), HasSubstr("delete the pod"));
  EXPECT_EQ(node.admission->counts().unknown_pod, 1U);
}

TEST(Admission, ServesInBindOrderIfKubeletHasNoGet) {
  Node node(gpus(4));
  node.has_get = false;
  const Pod first = share("first", 3, 2);
  const Pod second = share("second", 3, 1);
  const Pod other_size = share("other", 5, 0);
  node.bind(first);
  node.bind(second);
  node.bind(other_size);
  EXPECT_EQ(sees(node.admit(first)), uuid(2));
  EXPECT_EQ(sees(node.admit(second)), uuid(1));
  EXPECT_EQ(sees(node.admit(other_size)), uuid(0));
  EXPECT_TRUE(node.pre_start(first, "main"));
  EXPECT_EQ(node.admission->lookup().counts().guessed, 3U);
  EXPECT_FALSE(node.admission->lookup().has_get());
}

TEST(Admission, RetriesAfterTheRateLimitOfGet) {
  Node node(gpus(4));
  node.gets_left = 2;
  std::vector<Pod> pods;
  for (unsigned i = 0; i < 6; ++i) {
    pods.push_back(share("p" + std::to_string(i), 3, i % 4));
    node.bind(pods.back());
  }
  EXPECT_EQ(sees(node.admit(pods[5])), uuid(1));
}

TEST(Admission, RetriesAGetThatTimedOut) {
  Node node(gpus(4));
  node.gets_late = 2;
  const Pod queued = share("queued", 3, 2);
  const Pod next = share("next", 3, 1);
  node.bind(queued);
  node.bind(next);
  EXPECT_EQ(sees(node.admit(next)), uuid(1));
}

TEST(Admission, AllocatesToEachContainerItsOwnShare) {
  Node node(gpus(4));
  const Pod pod = Pod("a").main("x", 4).main("none", 0).main("y", 3).on("x", {{1, 4}}).on("y", {{3, 3}});
  node.bind(pod);
  const auto envs = node.admit(pod);
  EXPECT_EQ(sees(envs, "x"), uuid(1));
  EXPECT_EQ(sees(envs, "y"), uuid(3));
  EXPECT_EQ(envs->at("y").at("ALIYUN_COM_GPU_MEM_POD"), "7");
  EXPECT_EQ(envs->at("y").at("ALIYUN_COM_GPU_MEM_CONTAINER"), "3");
  EXPECT_THAT(node.gpus_by_ids(pod, "x"), ElementsAre(uuid(1)));
  EXPECT_THAT(node.gpus_by_ids(pod, "y"), ElementsAre(uuid(3)));
}

TEST(Admission, AllocatesAShareOfSeveralGpus) {
  Node node(gpus(4));
  const Pod pod = Pod("a").main("main", 6).on("main", {{1, 3}, {2, 3}});
  node.bind(pod);
  EXPECT_EQ(sees(node.admit(pod)), uuid(1) + "," + uuid(2));
  EXPECT_THAT(node.gpus_by_ids(pod, "main"), ElementsAre(uuid(1), uuid(2)));
}

TEST(Admission, AllocatesWholeGpusAndSharesToOneContainerInOneEnvironment) {
  Node node(gpus(4));
  Pod pod = Pod("a").main("main", 2);
  pod.spec.containers[0].gpu_limits.emplace_back(GpuResource::kWhole, Quantity::units(2));
  pod.on("main", {{0, 2}, {1, 0}, {3, 0}});
  node.bind(pod);
  // Both responses have the same keys, and kubelet uses either one, so they must agree.
  const auto envs = node.admit(pod);
  EXPECT_EQ(sees(envs), uuid(0) + "," + uuid(1) + "," + uuid(3));
  EXPECT_THAT(node.gpus_by_ids(pod, "main", GpuResource::kWhole), ElementsAre(uuid(1), uuid(3)));
  EXPECT_THAT(node.gpus_by_ids(pod, "main"), ElementsAre(uuid(0)));
  EXPECT_TRUE(node.pre_start(pod, "main", GpuResource::kWhole));
  EXPECT_TRUE(node.pre_start(pod, "main"));
}

TEST(Admission, FollowsTheDecisionWhenKubeletReusesIdsOfInitContainers) {
  Node node(gpus(4));
  // The init container has two GPUs, and kubelet reuses its IDs at random.
  const Pod pod = Pod("a")
                      .init("prepare", 8)
                      .main("x", 3)
                      .main("y", 3)
                      .on("prepare", {{0, 4}, {1, 4}})
                      .on("x", {{0, 3}})
                      .on("y", {{1, 3}});
  node.bind(pod);
  const auto envs = node.admit(pod);
  EXPECT_EQ(sees(envs, "prepare"), uuid(0) + "," + uuid(1));
  EXPECT_EQ(sees(envs, "x"), uuid(0));
  EXPECT_EQ(sees(envs, "y"), uuid(1));
  for (const char* container : {"prepare", "x", "y"}) {
    EXPECT_TRUE(node.pre_start(pod, container)) << container;
  }
}

TEST(Admission, FollowsTheDecisionWhicheverIdsKubeletPicked) {
  Node node(gpus(4));
  node.prefers = false;
  const Pod pod = share("a", 3, 2);
  node.bind(pod);
  EXPECT_EQ(sees(node.admit(pod)), uuid(2));
  EXPECT_THAT(node.gpus_by_ids(pod, "main"), Not(Contains(uuid(2))));
  EXPECT_EQ(node.admission->counts().mismatched_ids, 1U);
  EXPECT_TRUE(node.pre_start(pod, "main"));
}

// kubelet's Topology Manager may align a container to NUMA nodes. It then offers only IDs of these
// nodes, even if the record names a GPU of another one. The pod still gets the GPU of its record,
// and the IDs are counted as mismatched.
TEST(Admission, AllocatesTheDecidedGpuIfTopologyManagerOffersOnlyOthers) {
  Node node(gpus(4));
  const Pod pod = share("a", 3, 3);
  node.bind(pod);
  node.offer_only({0, 1});
  EXPECT_EQ(sees(node.admit(pod)), uuid(3));
  EXPECT_THAT(node.gpus_by_ids(pod, "main"), Not(Contains(uuid(3))));
  EXPECT_EQ(node.admission->counts().mismatched_ids, 1U);
  EXPECT_TRUE(node.pre_start(pod, "main"));
}

// kubelet admits no other pod during the call.
TEST(Admission, PrefersGpusOf16QuicklyHoweverManyAreRequested) {
  for (int count = 1; count <= 16; ++count) {
    Node node(gpus(16));
    Pod pod = Pod("a").whole("main", count);
    std::vector<std::pair<unsigned, unsigned>> where;
    std::set<std::string> decided;
    for (int i = 0; i < count; ++i) {
      where.emplace_back(15 - i, 0);
      decided.insert(uuid(static_cast<unsigned>(15 - i)));
    }
    pod.on("main", where);
    node.bind(pod);
    const auto begun = thread_cpu();
    ASSERT_TRUE(node.admit(pod)) << count;
    EXPECT_LT(thread_cpu() - begun, 200ms) << count;
    EXPECT_EQ(node.gpus_by_ids(pod, "main", GpuResource::kWhole), decided) << count;
  }
}

TEST(Admission, BlocksAnUndecidedPodAndSaysWhatToDo) {
  Node node(gpus(2));
  const Pod pod = Pod("a").main("main", 3);
  node.bind(pod);
  EXPECT_EQ(sees(node.admit(pod)), "void");
  const Status blocked = node.pre_start(pod, "main");
  ASSERT_FALSE(blocked);
  EXPECT_THAT(blocked.error().text(), HasSubstr("ml/a"));
  EXPECT_THAT(blocked.error().text(), HasSubstr("schedulerName"));
  EXPECT_THAT(node.recorded, Contains("a GpuUndecided"));
  EXPECT_THAT(node.allocations().find("uid-a", "main")->start_block, HasSubstr("schedulerName"));
}

// Otherwise the last pods that are packed on a GPU would get IDs of another GPU.
// kubelet creates the mirror pod in the API server after it has admitted the static pod, with
// another UID.
TEST(Admission, SaysThatAStaticPodCannotHaveAGpu) {
  for (const unsigned count : {1U, 4U}) {
    Node node(gpus(count));
    Pod file = Pod("web-gpu-a").main("main", 3);
    file.spec.uid = "0cc175b9c0f1b6a831c399e269772661";
    const Pod mirror = Pod("web-gpu-a").main("main", 3);
    ASSERT_EQ(sees(node.admit(file)), "void") << count;
    node.bind(mirror);
    const Status blocked = node.pre_start(file, "main");
    ASSERT_FALSE(blocked) << count;
    EXPECT_THAT(blocked.error().text(),
                testing::AllOf(HasSubstr("is a static pod"), HasSubstr("as a DaemonSet")));
  }
}

TEST(Admission, PrefersIdsOfTheGpuWithMostFreeMemoryForUndecidedPods) {
  Node node(gpus(2));
  const Pod packed = share("packed", 10, 0);
  const Pod undecided = Pod("undecided").main("main", 3);
  const Pod last = share("last", 6, 0);
  for (const Pod& pod : {packed, undecided, last}) {
    node.bind(pod);
    ASSERT_TRUE(node.admit(pod));
  }
  EXPECT_THAT(node.gpus_by_ids(undecided, "main"), ElementsAre(uuid(1)));
  EXPECT_THAT(node.gpus_by_ids(last, "main"), ElementsAre(uuid(0)));
}

TEST(Admission, ServesAnUndecidedPodIfThereIsOneGpu) {
  Node node(gpus(1));
  const Pod pod = Pod("a").main("main", 3);
  const Pod whole = Pod("b").whole("main", 1);
  node.bind(pod);
  EXPECT_EQ(sees(node.admit(pod)), uuid(0));
  EXPECT_TRUE(node.pre_start(pod, "main"));
  node.end(pod);
  node.bind(whole);
  EXPECT_EQ(sees(node.admit(whole)), uuid(0));
}

TEST(Admission, RejectsAForgedRecord) {
  Node node(gpus(4));
  const Pod greedy = Pod("greedy").main("main", 1).on("main", {{1, 16}});
  const Pod elsewhere = share("elsewhere", 3, 9);
  node.bind(greedy);
  node.bind(elsewhere);
  EXPECT_EQ(sees(node.admit(greedy)), "void");
  EXPECT_EQ(sees(node.admit(elsewhere)), "void");
  EXPECT_FALSE(node.pre_start(greedy, "main"));
  EXPECT_FALSE(node.pre_start(elsewhere, "main"));
  EXPECT_THAT(node.recorded, Contains("greedy InvalidGpuRecord"));
  EXPECT_THAT(node.recorded, Contains("elsewhere GpuLost"));
}

TEST(Admission, BlocksAPodWithAnInvalidRequest) {
  Node node(gpus(4));
  Pod pod = Pod("both").whole("main", 1);
  pod.spec.containers[0].gpu_limits.emplace_back(GpuResource::kCount, Quantity::units(1));
  pod.spec.node_name = "gpu-a";
  node.bind(pod);
  EXPECT_EQ(sees(node.admit(pod)), "void");
  const Status blocked = node.pre_start(pod, "main", GpuResource::kWhole);
  ASSERT_FALSE(blocked);
  EXPECT_THAT(blocked.error().text(), HasSubstr("ml/both"));
  EXPECT_THAT(blocked.error().text(), HasSubstr("with a valid request"));
  EXPECT_THAT(node.recorded, Contains("both InvalidGpuRecord"));
  EXPECT_EQ(node.admission->counts().unknown_pod, 0U);
  node.end(pod);
  EXPECT_EQ(node.allocations().size(), 0U);
}

// The pod ended before the agent learned of it.
TEST(Admission, ForgetsAnUnknownPodThatHasEnded) {
  Node node(gpus(2));
  const Pod stranger = share("stranger", 8, 0);
  const Pod other = share("other", 3, 1);
  node.api_away = true;
  ASSERT_EQ(sees(node.admit(stranger)), "void");
  node.settle();
  ASSERT_EQ(node.allocations().size(), 1U);
  node.restart_agent(node.saved);
  node.pods->synced();
  EXPECT_EQ(node.allocations().size(), 1U) << "it is still in kubelet's checkpoint";
  node.end(stranger);
  node.bind(other);
  node.end(other);
  EXPECT_EQ(node.allocations().size(), 0U);
}

TEST(Admission, BlocksAPodWhoseRecordClaimsTheSharesOfOthers) {
  Node node(gpus(4));
  Pod before = share("before", 10, 1);
  const Pod forged = share("forged", 10, 1);
  node.bind(before);
  node.bind(forged);
  ASSERT_EQ(sees(node.admit(before)), uuid(1));
  EXPECT_TRUE(node.pre_start(before, "main"));
  ASSERT_TRUE(node.admit(forged));
  const Status blocked = node.pre_start(forged, "main");
  ASSERT_FALSE(blocked);
  EXPECT_THAT(blocked.error().text(), HasSubstr("ml/before"));
  node.end(before);
  EXPECT_TRUE(node.pre_start(forged, "main")) << "the pod may start when the GPU has room";
}

TEST(Admission, BlocksAPodWhoseRecordClaimsMoreThanItsGpuHas) {
  Node node(gpus(2));
  const Pod pod = share("a", 17, 1);  // of 16
  node.bind(pod);
  ASSERT_TRUE(node.admit(pod));
  const Status blocked = node.pre_start(pod, "main");
  ASSERT_FALSE(blocked);
  EXPECT_THAT(blocked.error().text(), HasSubstr("has 16 units, but this pod's record allocates 17"));
  EXPECT_THAT(node.recorded, Contains("a GpuOvercommitted"));
}

TEST(Admission, RejectsAnIndexThatDoesNotExist) {
  for (const unsigned count : {1U, 4U}) {
    Node node(gpus(count));
    Pod pod = Pod("old").main("main", 2);
    pod.spec.annotations["ALIYUN_COM_GPU_MEM_IDX"] = "7";
    pod.spec.annotations["ALIYUN_COM_GPU_MEM_POD"] = "2";
    node.bind(pod);
    EXPECT_EQ(sees(node.admit(pod)), "void") << count;
    EXPECT_FALSE(node.pre_start(pod, "main"));
    EXPECT_THAT(node.recorded, Contains("old InvalidGpuRecord")) << count;
  }
}

TEST(Admission, ReadsTheAnnotationsOfTheOriginalSchedulers) {
  Node node(gpus(4));
  Pod pod = Pod("old").main("main", 3);
  pod.spec.annotations["ALIYUN_COM_GPU_MEM_IDX"] = "2";
  pod.spec.annotations["ALIYUN_COM_GPU_MEM_POD"] = "3";
  node.bind(pod);
  EXPECT_EQ(sees(node.admit(pod)), uuid(2));
}

TEST(Admission, BlocksAContainerWhileItsGpuIsUnhealthy) {
  Node node(gpus(4));
  const Pod pod = share("a", 3, 2);
  node.bind(pod);
  ASSERT_EQ(sees(node.admit(pod)), uuid(2));
  alloc::Inventory unhealthy = gpus(4);
  unhealthy.gpus[2].unhealthy = "XID 79";
  node.set_inventory(unhealthy);
  const Status blocked = node.pre_start(pod, "main");
  ASSERT_FALSE(blocked);
  EXPECT_THAT(blocked.error().text(), HasSubstr("GPU 2"));
  EXPECT_THAT(blocked.error().text(), HasSubstr("XID 79"));
  node.set_inventory(gpus(4));
  EXPECT_TRUE(node.pre_start(pod, "main"));
}

TEST(Admission, KnowsItsAllocationsAfterARestart) {
  Node node(gpus(4));
  const Pod pod = share("a", 3, 2);
  node.bind(pod);
  ASSERT_TRUE(node.admit(pod));
  auto before = node.allocations().all();
  ASSERT_EQ(before.size(), 1U);
  node.restart_agent(node.saved);
  // The pods are not listed yet, and kubelet knows none.
  EXPECT_EQ(node.allocations().all(), before);
  node.bind(pod);
  node.pods->synced();
  node.forget_known();
  EXPECT_TRUE(node.pre_start(pod, "main"));
  before.front().started = true;
  EXPECT_EQ(node.allocations().all(), before);
}

TEST(Admission, RecoversAllocationsFromTheCheckpointIncludingInitContainers) {
  Node node(gpus(4));
  node.has_get = false;
  const Pod pod = Pod("a").init("prepare", 2).main("main", 3).on("prepare", {{2, 2}}).on("main", {{2, 3}});
  node.bind(pod);
  ASSERT_TRUE(node.admit(pod));
  auto before = node.allocations().all();
  ASSERT_EQ(before.size(), 2U);
  for (Allocation& allocation : before) {
    allocation.guessed = false;  // the checkpoint names the pod
  }
  node.restart_agent();
  node.bind(pod);
  node.pods->synced();
  EXPECT_EQ(node.allocations().all(), before);
}

TEST(Admission, RecoversAllocationsFromKubeletWhenTheStateFileIsLost) {
  Node node(gpus(4));
  node.has_checkpoint = false;
  const Pod running = share("running", 3, 2);
  const Pod next = share("next", 3, 1);
  node.bind(running);
  ASSERT_TRUE(node.admit(running));
  const auto before = node.allocations().all();
  node.restart_agent();
  node.bind(running);
  node.bind(next);
  // During the recovery, kubelet admits another pod. The agent must not confuse it with a pod that
  // already has its IDs.
  EXPECT_EQ(sees(node.admit(next)), uuid(1));
  node.pods->synced();
  node.settle();
  EXPECT_THAT(node.allocations().all(), Contains(before[0]));
  EXPECT_TRUE(node.pre_start(running, "main"));
}

// Only kubelet's checkpoint shows that the container sees no GPU.
TEST(Admission, RecoversThatAContainerGotNoGpu) {
  Node node(gpus(4));
  Pod pod = Pod("a").main("main", 3);
  node.bind(pod);
  ASSERT_EQ(sees(node.admit(pod)), "void");
  node.restart_agent_among({pod.on("main", {{2, 3}})});  // the record was written in the meantime
  const Status blocked = node.pre_start(pod, "main");
  ASSERT_FALSE(blocked) << "the container would run without a GPU";
  EXPECT_THAT(blocked.error().text(), HasSubstr("admitted with no GPU"));
  EXPECT_THAT(node.allocations().find("uid-a", "main")->shares, IsEmpty());
}

// kubelet has no Get and does not admit two pods of equal size in the order they were bound.
TEST(Admission, RecoversThatAContainerSeesTheGpuOfAnother) {
  Node node(gpus(4));
  const Pod first = share("first", 3, 2);
  const Pod second = share("second", 3, 1);
  node.admit_swapped(first, second);
  node.restart_agent_among({first, second});
  EXPECT_TRUE(node.pre_start(second, "main"));
  EXPECT_EQ(node.allocations().find("uid-second", "main")->shares.front().device, uuid(2));
  EXPECT_TRUE(node.repairs.at("second").changes_gpus) << "its record must name the GPU that it sees";
}

TEST(Admission, ForgetsPodsThatEndedWhileTheAgentWasDown) {
  Node node(gpus(4));
  const Pod pod = share("a", 3, 2);
  node.bind(pod);
  ASSERT_TRUE(node.admit(pod));
  node.restart_agent(node.saved);
  ASSERT_EQ(node.allocations().size(), 1U);
  node.pods->synced();
  EXPECT_EQ(node.allocations().size(), 0U);
}

TEST(Admission, ServesAPodAgainWhenKubeletLostItsCheckpoint) {
  Node node(gpus(4));
  const Pod pod = share("a", 3, 2);
  node.bind(pod);
  ASSERT_TRUE(node.admit(pod));
  node.forget_known();
  node.used(pod, "main").clear();
  EXPECT_EQ(sees(node.admit(pod)), uuid(2));
}

// The agent does not expect kubelet to admit a pod that has already run, so the pod does not get
// its GPU back.
TEST(Admission, BlocksAPodThatRanAndWasReadmittedAsUnknown) {
  Node node(gpus(4));
  Pod pod = share("a", 3, 2);
  node.bind(pod);
  ASSERT_TRUE(node.admit(pod));
  ASSERT_TRUE(node.pre_start(pod, "main"));
  node.bind(pod.state(alloc::ContainerState::kRunning));
  node.forget_known();
  node.used(pod, "main").clear();
  node.prefers = false;
  node.offer_only({0});
  ASSERT_EQ(sees(node.admit(pod)), "void");
  node.bind(pod.state(alloc::ContainerState::kNotStarted));
  EXPECT_FALSE(node.pre_start(pod, "main")) << "the container would run without a GPU";
  EXPECT_THAT(node.allocations().find("uid-a", "main")->shares, IsEmpty());
}

TEST(Admission, LetsPodsOfTheOriginalPluginRestart) {
  Node node(gpus(4));
  EXPECT_TRUE(node.pre_start_ids({uuid(1) + "-_-0", uuid(1) + "-_-1"}));
  EXPECT_TRUE(node.pre_start_ids({uuid(1)}, GpuResource::kWhole));
}

TEST(Admission, KeepsHeldIdsListedWhenTheirGpuIsGone) {
  Node node(gpus(2));
  const Pod pod = share("a", 3, 1);
  node.bind(pod);
  ASSERT_TRUE(node.admit(pod));
  node.set_inventory(gpus(1));
  const std::vector<Device> shares = node.lists().front().devices;
  // The GPU was removed before the agent started. The agent must still update the list when the pod
  // ends.
  EXPECT_TRUE(node.lists().front().has_vanished);
  EXPECT_EQ(shares.size(), 16U + 3U);
  EXPECT_EQ(std::ranges::count_if(shares, [](const Device& one) { return !one.healthy; }), 3);
  node.end(pod);
  EXPECT_EQ(node.lists().front().devices.size(), 16U);
  EXPECT_FALSE(node.lists().front().has_vanished);
}

TEST(Admission, DoesNotPreferIdsThatKubeletForgot) {
  Node node(gpus(1));
  const Pod first = share("first", 4, 0);
  const Pod second = share("second", 4, 0);
  node.bind(first);
  node.bind(second);
  ASSERT_TRUE(node.admit(first));
  const auto forgotten = node.used(first, "main");
  // Another client called podresources List during the admission, so kubelet offers the IDs again.
  node.used(first, "main").clear();
  ASSERT_TRUE(node.admit(second));
  for (const std::string& id : node.used(second, "main")) {
    EXPECT_FALSE(forgotten.contains(id)) << id;
  }
}

}  // namespace
}  // namespace tessera::agent
