#include "alloc/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster.h"

namespace tessera::alloc::testing {
namespace {

using ::testing::ElementsAre;

std::vector<std::uint32_t> free_on(const Ledger& ledger, const std::string& node) {
  const NodeView view = ledger.view(ledger.find_node(node).value());
  return {view.free.begin(), view.free.end()};
}

TEST(Ledger, CountsASharedPodOnTheGpuThatItsRecordNames) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("p", 3, "a", 1));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 13));
  ledger.remove_pod("uid-p");
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 16));
}

TEST(Ledger, WholeGpuIsFreeForNeitherSharesNorWholePods) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_whole("p", "a", {0}));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(0, 16));
  EXPECT_EQ(ledger.view(*ledger.find_node("a")).whole_free, 0b10U);
}

TEST(Ledger, KeepsPodsOfUnknownNodesUntilTheNodeAppears) {
  Ledger ledger;
  ledger.upsert_pod(bound_share("p", 3, "a", 1));
  ledger.upsert_node(node_of("a", {16, 16}));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 13));
  EXPECT_TRUE(ledger.problems().empty());
}

// The annotation was deleted by hand, or by a tool that prunes annotations. With the capacity
// alone, allocated GPUs would look free.
TEST(Ledger, FencesANodeWithoutInventoryWhilePodsHoldItsGpus) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("p", 16, "a", 0));
  const NodeId a = ledger.find_node("a").value();
  ledger.upsert_node(original_node("a", 32, 2));
  EXPECT_EQ(ledger.states().fence(a), Fence::kUnreadable);
  EXPECT_EQ(ledger.states().largest_free(a), 0U);
  EXPECT_THAT(std::string(ledger.fence_text(a)), ::testing::HasSubstr("tessera.io/inventory"));
  EXPECT_EQ(ledger.problem_count(ProblemKind::kUnreadableInventory), 1U);
  ledger.upsert_node(node_of("a", {16, 16}));
  EXPECT_EQ(ledger.states().fence(a), Fence::kOpen);
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(0, 16));

  // In any order of events, and until the pod ends.
  ledger.upsert_node(original_node("b", 32, 2));
  ledger.upsert_pod(bound_share("q", 16, "b", 0));
  const NodeId b = ledger.find_node("b").value();
  EXPECT_EQ(ledger.states().fence(b), Fence::kUnreadable);
  ledger.remove_pod("uid-q");
  EXPECT_EQ(ledger.states().fence(b), Fence::kOpen);
  EXPECT_THAT(free_on(ledger, "b"), ElementsAre(16, 16));
}

// kubelet may let the other plugin allocate any GPU at any moment, also one that was just reserved.
TEST(Ledger, FencesANodeWhoseGpusAnotherPluginAllocates) {
  Ledger ledger;
  Inventory inventory = inventory_of("a", {16, 16});
  ledger.upsert_node(node_with("a", inventory));
  ledger.upsert_pod(bound_share("p", 4, "a", 0));
  const NodeId a = ledger.find_node("a").value();
  ASSERT_EQ(ledger.states().fence(a), Fence::kOpen);

  // Reported by its agent. What pods hold stays in the ledger.
  inventory.also_served_as = {"example.com/gpu", "aliyun.com/gpu-mem"};
  inventory.gpus[1].unhealthy = "pod x/y has it through example.com/gpu of another device plugin";
  ledger.upsert_node(node_with("a", inventory));
  EXPECT_EQ(ledger.states().fence(a), Fence::kSecondPlugin);
  EXPECT_EQ(ledger.states().largest_free(a), 0U) << "also of unused GPUs";
  EXPECT_EQ(ledger.states().gpu_load(a, 0).units, 4U);
  ASSERT_EQ(ledger.problems().size(), 1U);
  EXPECT_EQ(
      ledger.problems()[0].text,
      "node a: another device plugin allocates the same GPUs as example.com/gpu and aliyun.com/gpu-mem, "
      "so Tessera places no more pods here; remove one of the two plugins");
  EXPECT_EQ(ledger.problem_total(ProblemKind::kSecondPlugin), 1U);

  // Reported by the capacity of kubelet; a different text counts again.
  NodeSpec nvidia = node_with("a", inventory);
  nvidia.nvidia_gpus = 2;
  ledger.upsert_node(nvidia);
  ledger.upsert_node(nvidia);
  EXPECT_EQ(ledger.states().fence(a), Fence::kSecondPlugin);
  EXPECT_EQ(ledger.problem_count(ProblemKind::kSecondPlugin), 1U);
  EXPECT_EQ(ledger.problem_total(ProblemKind::kSecondPlugin), 2U);

  ledger.upsert_node(node_of("a", {16, 16}));
  EXPECT_EQ(ledger.states().fence(a), Fence::kOpen);
  EXPECT_TRUE(ledger.problems().empty());
}

// kubelet rejects a GPU pod for good while no agent is registered.
TEST(Ledger, FencesANodeWhoseAgentEndsOrIsDown) {
  Ledger ledger;
  NodeSpec node = node_of("a", {16, 16});
  node.draining = "2026-11-18T00:20:00Z 5c1f09aa";
  ledger.upsert_node(node);
  ledger.upsert_pod(bound_share("p", 4, "a", 0));
  const NodeId a = ledger.find_node("a").value();
  EXPECT_EQ(ledger.states().fence(a), Fence::kAgentAway);
  EXPECT_THAT(std::string(ledger.fence_text(a)), ::testing::HasSubstr("tessera.io/draining"));
  EXPECT_EQ(ledger.states().largest_free(a), 0U);
  EXPECT_EQ(ledger.states().gpu_load(a, 0).units, 4U) << "pods keep their GPUs";
  EXPECT_TRUE(ledger.problems().empty()) << "a restart of the agent is no contradiction";

  node.draining.clear();
  ledger.upsert_node(node);
  EXPECT_EQ(ledger.states().fence(a), Fence::kOpen);

  ledger.set_agent_down("a", true);
  EXPECT_EQ(ledger.states().fence(a), Fence::kAgentAway);
  ledger.upsert_node(node);
  EXPECT_EQ(ledger.states().fence(a), Fence::kAgentAway) << "a heartbeat of the node does not open it";
  ledger.set_agent_down("a", false);
  EXPECT_EQ(ledger.states().fence(a), Fence::kOpen);

  ledger.set_agent_down("b", true);  // not known yet
  EXPECT_FALSE(ledger.find_node("b"));
}

TEST(Ledger, KeepsTheGraverFenceOfANodeWhoseAgentIsDown) {
  Ledger ledger;
  Inventory inventory = inventory_of("a", {16});
  inventory.also_served_as = {"example.com/gpu"};
  ledger.upsert_node(node_with("a", inventory));
  ledger.set_agent_down("a", true);
  const NodeId a = ledger.find_node("a").value();
  EXPECT_EQ(ledger.states().fence(a), Fence::kSecondPlugin);
  ledger.upsert_node(node_of("a", {16}));
  EXPECT_EQ(ledger.states().fence(a), Fence::kAgentAway);
}

// A node without an inventory runs the plugin of the original, which knows nothing of the annotation.
TEST(Ledger, IgnoresTheAnnotationOnANodeWithoutAnAgent) {
  Ledger ledger;
  NodeSpec node = original_node("a", 32, 2);
  node.draining = "x";
  ledger.upsert_node(node);
  EXPECT_EQ(ledger.states().fence(ledger.find_node("a").value()), Fence::kOpen);
}

TEST(Ledger, RemembersASecondPluginWhileTheInventoryIsMissing) {
  Ledger ledger;
  NodeSpec old = original_node("a", 32, 2);
  old.nvidia_gpus = 2;
  ledger.upsert_node(old);
  const NodeId a = ledger.find_node("a").value();
  EXPECT_EQ(ledger.states().fence(a), Fence::kSecondPlugin);
  ledger.upsert_pod(bound_share("p", 16, "a", 0));
  EXPECT_EQ(ledger.states().fence(a), Fence::kUnreadable);
  ledger.remove_pod("uid-p");
  EXPECT_EQ(ledger.states().fence(a), Fence::kSecondPlugin);
}

// Its GPUs would look free otherwise.
TEST(Ledger, FencesTheNodeOfAPodThatCannotBeRead) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_node(node_of("b", {16, 16}));
  const PodSpec pod = bound_share("p", 4, "a", 1);
  const NodeId a = ledger.find_node("a").value();
  ledger.upsert_unreadable_pod(key_of(pod), "a", "too large");
  ledger.upsert_unreadable_pod(key_of(pod), "a", "too large");
  EXPECT_EQ(ledger.states().fence(a), Fence::kUnreadablePod);
  EXPECT_EQ(ledger.states().largest_free(a), 0U);
  EXPECT_EQ(ledger.states().fence(ledger.find_node("b").value()), Fence::kOpen);
  const std::string text =
      "pod ml/p on node a cannot be read: too large; the node takes no more GPU pods until it is deleted";
  EXPECT_EQ(ledger.fence_text(a), text);
  ASSERT_EQ(ledger.problems().size(), 1U);
  EXPECT_EQ(ledger.problems()[0].text, text);

  // Also when the node changes, and when the pod arrives first.
  ledger.upsert_node(node_of("a", {16, 16, 16}));
  EXPECT_EQ(ledger.states().fence(a), Fence::kUnreadablePod);
  ledger.upsert_unreadable_pod({.namespace_name = "ml", .name = "q", .uid = "uid-q"}, "c", "too large");
  ledger.upsert_node(node_of("c", {16}));
  EXPECT_EQ(ledger.states().fence(ledger.find_node("c").value()), Fence::kUnreadablePod);

  // Opens when the pod can be read, or is gone.
  ledger.upsert_pod(pod);
  EXPECT_EQ(ledger.states().fence(a), Fence::kOpen);
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 12, 16));
  ledger.remove_pod("uid-q");
  EXPECT_EQ(ledger.states().fence(ledger.find_node("c").value()), Fence::kOpen);
  EXPECT_TRUE(ledger.problems().empty());
}

TEST(Ledger, APodThatCannotBeReadAnyMoreKeepsWhatItHolds) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16, 16}));
  const PodSpec pod = bound_share("p", 4, "a", 1);
  ledger.upsert_pod(pod);
  ledger.upsert_unreadable_pod(key_of(pod), "a", "too large");
  EXPECT_EQ(ledger.states().fence(ledger.find_node("a").value()), Fence::kOpen);
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 12));
  EXPECT_TRUE(ledger.problems().empty());
}

TEST(Ledger, ReportsThatKubeletAndInventoryDiffer) {
  Ledger ledger;
  NodeSpec node = node_of("a", {16, 16});
  ledger.upsert_node(node);
  EXPECT_TRUE(ledger.problems().empty()) << "the plugin may not have registered yet";
  node.gpu_memory_units = 31;
  ledger.upsert_node(node);
  ledger.upsert_node(node);
  ASSERT_EQ(ledger.problems().size(), 1U);
  EXPECT_EQ(
      ledger.problems()[0].text,
      "node a: aliyun.com/gpu-mem is 31 but its inventory says 32 on 2 GPUs; restart tessera-agent there "
      "or run \"tessera check a\"");
  EXPECT_EQ(ledger.problem_total(ProblemKind::kCapacityDiffers), 1U);
  node.gpu_memory_units = 30;
  ledger.upsert_node(node);
  EXPECT_EQ(ledger.problem_count(ProblemKind::kCapacityDiffers), 1U);
  EXPECT_EQ(ledger.problem_total(ProblemKind::kCapacityDiffers), 2U);
  node.gpu_memory_units = 32;
  ledger.upsert_node(node);
  EXPECT_EQ(ledger.problem_count(ProblemKind::kCapacityDiffers), 0U);
  node.gpu_memory_units = 31;
  ledger.upsert_node(node);
  ledger.remove_node("a");
  EXPECT_EQ(ledger.problem_count(ProblemKind::kCapacityDiffers), 0U);
  EXPECT_TRUE(ledger.problems().empty());
}

TEST(Ledger, ForgetsANodeAfterItAndItsPodsAreRemoved) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("p", 3, "a", 1));
  ledger.remove_node("a");
  EXPECT_TRUE(ledger.find_node("a"));
  EXPECT_TRUE(ledger.nodes().empty());
  ledger.remove_pod("uid-p");
  EXPECT_FALSE(ledger.find_node("a"));
}

TEST(Ledger, ReturnsTheGpusWhenBindFails) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16}));
  Placer placer(ledger);
  const PodSpec pod = share_pod("p", 4);
  const Choice choice = placer.choose_best(request_of(pod)).value();
  {
    const Hold hold = ledger.reserve(key_of(pod), request_of(pod), choice).value();
    EXPECT_THAT(free_on(ledger, "a"), ElementsAre(12));
  }
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16));
}

TEST(Ledger, CommittedHoldStaysUntilTheWatchShowsThePod) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16}));
  Placer placer(ledger);
  const PodSpec pod = share_pod("p", 4);
  const Choice choice = placer.choose_best(request_of(pod)).value();
  ledger.reserve(key_of(pod), request_of(pod), choice).value().commit();
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(12));
  ledger.upsert_pod(pod);  // a late event from before the bind
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(12));
  ledger.upsert_pod(after_bind(ledger, pod, choice));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(12));
  EXPECT_TRUE(ledger.holding(pod.uid)->bound);
}

TEST(Ledger, WatchMayShowTheBoundPodBeforeTheBindReturns) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16}));
  Placer placer(ledger);
  const PodSpec pod = share_pod("p", 4);
  const Choice choice = placer.choose_best(request_of(pod)).value();
  {
    const Hold hold = ledger.reserve(key_of(pod), request_of(pod), choice).value();
    ledger.upsert_pod(after_bind(ledger, pod, choice));
  }  // the bind timed out, but had succeeded
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(12));
}

// The watch shows changes in order, so the API server was restored from a backup.
TEST(Ledger, FreesTheGpusOfAPodThatTheWatchShowsUnboundAgain) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16}));
  ledger.upsert_pod(bound_share("p", 4, "a", 0));
  ledger.upsert_pod(share_pod("p", 4));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16));
  EXPECT_EQ(ledger.pod_count(), 0U);
}

TEST(Ledger, OlderEventOfTheWatchDoesNotUndoAFetchedBind) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16}));
  ledger.upsert_pod(bound_share("p", 4, "a", 0), PodSource::kGet);
  ledger.upsert_pod(share_pod("p", 4));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(12));
  EXPECT_FALSE(ledger.holding("uid-p")->bound);
  ledger.upsert_pod(bound_share("p", 4, "a", 0));
  ledger.upsert_pod(bound_share("p", 5, "a", 0), PodSource::kGet);
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(12)) << "the response may be older than the watch";
  EXPECT_TRUE(ledger.holding("uid-p")->bound);
}

TEST(Ledger, RefusesAChoiceWhoseGpusWereTaken) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16}));
  Placer placer(ledger);
  const PodSpec first = share_pod("first", 10);
  const PodSpec second = share_pod("second", 10);
  const Choice choice = placer.choose_best(request_of(first)).value();
  const Hold hold = ledger.reserve(key_of(first), request_of(first), choice).value();
  const auto refused = ledger.reserve(key_of(second), request_of(second), choice);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kConflict);
  EXPECT_EQ(refused.error().text(), "GPU 0 of node a was taken since the choice was made");
  EXPECT_FALSE(ledger.reserve(key_of(first), request_of(first), choice)) << "the pod already holds GPUs";
}

TEST(Ledger, RefusesAChoiceOnANodeWhoseGpusChanged) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16, 16}));
  Placer placer(ledger);
  const PodSpec pod = share_pod("p", 4);
  const Choice choice = placer.choose_best(request_of(pod)).value();
  ledger.upsert_node(node_of("a", {16, 16}));  // a heartbeat
  EXPECT_TRUE(ledger.reserve(key_of(pod), request_of(pod), choice));
  ledger.upsert_node(node_of("a", {16, 32}));
  EXPECT_FALSE(ledger.reserve(key_of(pod), request_of(pod), choice));
}

TEST(Ledger, SumsCpuAndMemoryOfAllPods) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16}));
  PodSpec pod = pod_of("web", {container("main", 0)});
  pod.containers[0].cpu_milli = 1500;
  pod.containers[0].memory_bytes = 1 << 20;
  pod.node_name = "a";
  ledger.upsert_pod(pod);
  EXPECT_EQ(ledger.view(*ledger.find_node("a")).cpu_milli_left, 62'500);
  pod.phase = PodPhase::kSucceeded;
  ledger.upsert_pod(pod);
  EXPECT_EQ(ledger.view(*ledger.find_node("a")).cpu_milli_left, 64'000);
}

TEST(Ledger, StoresOnlyTheUidOfPodsWithoutGpus) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16, 16}));
  PodSpec web = pod_of("web", {container("main", 0)});
  web.node_name = "a";
  ledger.upsert_pod(web);
  EXPECT_EQ(ledger.holding(web.uid)->pod, (PodKey{.namespace_name = "", .name = "", .uid = web.uid}));
  EXPECT_TRUE(ledger.holdings(*ledger.find_node("a")).empty());
}

TEST(Ledger, NamesEveryPodWithAProblem) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16, 16}));
  PodSpec undecided = share_pod("undecided", 3);
  PodSpec wrong = pod_of("wrong", {container("main", -1)});
  wrong.containers[0].gpu_limits.emplace_back(GpuResource::kMemory, Quantity::units(-1));
  for (PodSpec* pod : {&undecided, &wrong}) {
    pod->node_name = "a";
    ledger.upsert_pod(*pod);
    EXPECT_EQ(ledger.holding(pod->uid)->pod, key_of(*pod));
  }
  std::vector<std::string> pods;
  for (const Problem& problem : ledger.problems()) {
    pods.push_back(problem.pod);
  }
  EXPECT_THAT(pods, ::testing::UnorderedElementsAre("ml/undecided", "ml/wrong"));
}

// A node could publish new names for ever.
TEST(Ledger, ForgetsModelsThatNoGpuHas) {
  Ledger ledger;
  ledger.upsert_node(node_of("steady", {32}));
  for (int i = 0; i < 1'000; ++i) {
    Inventory inventory = inventory_of("a", {16, 16});
    inventory.machine = fmt::format("machine {}", i);
    inventory.gpus[0].model = fmt::format("model {}", i);
    inventory.gpus[1].model = fmt::format("other model {}", i);
    ledger.upsert_node(node_with("a", inventory));
    ledger.upsert_node(node_with("a", inventory));
    ASSERT_LE(ledger.model_count(), 5U);
  }
  const NodeId a = ledger.find_node("a").value();
  EXPECT_EQ(ledger.model_name(ledger.gpus(a)[0].model), "model 999");
  EXPECT_EQ(ledger.model_name(ledger.gpus(a)[1].model), "other model 999");
  EXPECT_EQ(ledger.machine(a), "machine 999");
  EXPECT_EQ(ledger.model_name(ledger.gpus(ledger.find_node("steady").value())[0].model),
            "NVIDIA A100-SXM4-80GB");
  Placer placer(ledger);
  PodSpec pod = share_pod("p", 3);
  pod.annotations[std::string(key::kGpuModel)] = "model 998";
  EXPECT_EQ(placer.reason(request_of(pod), a), Reason::kNoSuchModel);
  pod.annotations[std::string(key::kGpuModel)] = "other-model-999";
  EXPECT_EQ(placer.reason(request_of(pod), a), Reason::kFits);
  ledger.remove_node("a");
  const std::vector<std::string> any{"model"};
  EXPECT_THAT(ledger.models_matching(any), ::testing::Each(0));
}

TEST(Ledger, RefusesOnlyNewTopologiesOfManyGpus) {
  Ledger ledger;
  using Tables = Ledger::NewTables;
  const auto linked = [](const std::string& node, unsigned gpus, std::uint8_t nvlinks) {
    Inventory inventory = inventory_of(node, std::vector<std::uint32_t>(gpus, 32));
    inventory.topology.set_link(0, 1,
                                {.path = topology::PciePath::kPix, .nvlinks = nvlinks, .generation = 3});
    return node_with(node, inventory);
  };
  EXPECT_TRUE(ledger.upsert_node(linked("a", 12, 1), Tables::kBuild));
  EXPECT_EQ(ledger.large_tables_built(), 1U);
  EXPECT_TRUE(ledger.upsert_node(linked("b", 12, 1), Tables::kRefuse)) << "node a has the same topology";
  EXPECT_TRUE(ledger.upsert_node(linked("c", 8, 2), Tables::kRefuse)) << "small tables are always built";
  EXPECT_FALSE(ledger.upsert_node(linked("b", 12, 2), Tables::kRefuse));
  EXPECT_FALSE(ledger.upsert_node(linked("d", 12, 2), Tables::kRefuse));
  EXPECT_FALSE(ledger.find_node("d"));
  const NodeView b = ledger.view(ledger.find_node("b").value());
  EXPECT_EQ(b.tables->topology().link(0, 1).nvlinks, 1) << "it is unchanged";
  EXPECT_EQ(ledger.large_tables_built(), 1U);
}

// A pod's GPUs stay counted, whatever its annotations say later.
class StartedPod : public ::testing::Test {
 protected:
  StartedPod() { ledger.upsert_node(node_of("a", {16, 16, 16})); }

  static PodSpec started(PodSpec pod) {
    pod.containers[0].state = ContainerState::kRunning;
    return pod;
  }
  static PodSpec without_record(PodSpec pod) {
    pod.annotations.clear();
    return pod;
  }
  [[nodiscard]] NodeId node() const { return ledger.find_node("a").value(); }
  [[nodiscard]] Fence fence() const { return ledger.states().fence(node()); }
  [[nodiscard]] std::string only_problem() const {
    const std::vector<Problem> problems = ledger.problems();
    return problems.size() == 1 ? problems[0].text : fmt::format("{} problems", problems.size());
  }

  Ledger ledger;
};

TEST_F(StartedPod, KeepsItsGpuWhenItsRecordIsRemoved) {
  const PodSpec pod = started(bound_whole("p", "a", {1}));
  ledger.upsert_pod(pod);
  ledger.upsert_pod(without_record(pod));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 0, 16));
  EXPECT_EQ(fence(), Fence::kOpen);
  EXPECT_EQ(only_problem(),
            "pod ml/p on node a: its record was removed although the pod has its GPUs; Tessera still counts "
            "GPU 1 for it; if tessera-agent there does not repair the record, delete the pod");
  ledger.upsert_pod(pod);
  EXPECT_TRUE(ledger.problems().empty()) << "the agent repaired the record";
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 0, 16));
  ledger.upsert_pod(without_record(pod));
  ledger.remove_pod(pod.uid);
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 16, 16));
}

TEST_F(StartedPod, KeepsItsGpuWhenItsRecordIsMadeInvalid) {
  PodSpec pod = started(bound_share("p", 4, "a", 1));
  ledger.upsert_pod(pod);
  for (const std::string text :
       {"", "broken", R"({"v":1,"containers":{"main":[{"gpu":"GPU-a-0","mem":1}]}})"}) {
    pod.annotations[std::string(key::kAllocation)] = text;
    ledger.upsert_pod(pod);
    EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 12, 16)) << text;
  }
  EXPECT_THAT(only_problem(), ::testing::HasSubstr("its record was made invalid although"));
}

// The container itself can remove the record before kubelet reports that it has started.
TEST_F(StartedPod, KeepsItsGpuWhenItsRecordIsRemovedBeforeKubeletReportsTheStart) {
  const PodSpec pod = bound_share("p", 4, "a", 1);
  ledger.upsert_pod(pod);
  ledger.upsert_pod(without_record(pod));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 12, 16));
  ledger.upsert_pod(started(without_record(pod)));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 12, 16));
  EXPECT_EQ(fence(), Fence::kOpen);
}

TEST_F(StartedPod, KeepsTheGpuOfAHoldWhenTheRecordIsRemovedBeforeTheWatchShowsIt) {
  Placer placer(ledger);
  const PodSpec pod = share_pod("p", 4);
  const Choice choice = placer.choose_best(request_of(pod)).value();
  ledger.reserve(key_of(pod), request_of(pod), choice).value().commit();
  PodSpec shown = after_bind(ledger, pod, choice);
  ledger.upsert_pod(started(without_record(shown)));
  EXPECT_EQ(ledger.view(node()).free_units, 44U);
  EXPECT_EQ(fence(), Fence::kOpen);
}

// The ledger cannot know who replaced the record: the agent repairs it to what the pod was given,
// a tenant writes anything. While the two differ, both are counted.
TEST_F(StartedPod, CountsTheGpusOfBothRecordsAfterARewrite) {
  const PodSpec pod = started(bound_share("p", 4, "a", 0));
  ledger.upsert_pod(pod);
  ledger.upsert_pod(started(bound_share("p", 4, "a", 1)));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(12, 12, 16));
  EXPECT_EQ(only_problem(),
            "pod ml/p on node a: its record was replaced although the pod has its GPUs; Tessera still counts "
            "GPU 0 and 1 for it; if tessera-agent there does not repair the record, delete the pod");
  ledger.upsert_pod(started(bound_share("p", 4, "a", 2)));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(12, 16, 12)) << "not the sum of all rewrites";
  ledger.upsert_pod(without_record(pod));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(12, 16, 12));
  ledger.upsert_pod(pod);
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(12, 16, 16)) << "repaired";
  EXPECT_TRUE(ledger.problems().empty());
}

TEST_F(StartedPod, CountsAGpuOfBothRecordsOnce) {
  PodSpec pod = started(pod_of("p", {container("main", 4), container("big", 0, 1)}));
  const auto with = [&](unsigned share, unsigned whole) {
    PodSpec one = bound(pod, "a", {});
    one.annotations[std::string(key::kAllocation)] =
        Record{{{"main", {{.gpu = uuid_of("a", share), .units = 4}}},
                {"big", {{.gpu = uuid_of("a", whole), .whole = true}}}}}
            .json();
    return one;
  };
  ledger.upsert_pod(with(0, 1));
  ledger.upsert_pod(with(1, 0));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(0, 0, 16));
  EXPECT_EQ(ledger.problem_count(ProblemKind::kOvercommitted), 0U);
  ledger.remove_pod(pod.uid);
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 16, 16));
}

// The agent may correct a record until the first GPU container starts.
TEST_F(StartedPod, BelievesANewRecordUntilAGpuContainerHasStarted) {
  PodSpec pod = pod_of("p", {container("wait", 0, 0, ContainerKind::kInit), container("main", 4)});
  pod.containers[0].state = ContainerState::kTerminated;
  ledger.upsert_pod(bound(pod, "a", {{.gpu = uuid_of("a", 0), .units = 4}}));
  ledger.upsert_pod(bound(pod, "a", {{.gpu = uuid_of("a", 1), .units = 4}}));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 12, 16)) << "the init container uses no GPU";
  pod.containers[1].ran_before = true;  // waits in CrashLoopBackOff
  ledger.upsert_pod(bound(pod, "a", {{.gpu = uuid_of("a", 1), .units = 4}}));
  ledger.upsert_pod(bound(pod, "a", {{.gpu = uuid_of("a", 2), .units = 4}}));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 12, 12));
}

// The agent adds tessera.io/allocation to pods that an original scheduler placed.
TEST_F(StartedPod, CountsAnOriginalRecordAndItsTranslationOnce) {
  PodSpec pod = started(share_pod("p", 4));
  pod.node_name = "a";
  pod.annotations["ALIYUN_COM_GPU_MEM_IDX"] = "1";
  pod.annotations["ALIYUN_COM_GPU_MEM_POD"] = "4";
  ledger.upsert_pod(pod);
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 12, 16));
  ledger.upsert_pod(started(bound_share("p", 4, "a", 1)));
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 12, 16));
  EXPECT_TRUE(ledger.problems().empty());
  // From now on the UUID counts: a new driver may number the GPUs differently.
  Inventory inventory = inventory_of("a", {16, 16, 16});
  std::swap(inventory.gpus[0].index, inventory.gpus[1].index);
  ledger.upsert_node(node_with("a", inventory));
  ledger.upsert_pod(started(bound_share("p", 4, "a", 1)));
  EXPECT_EQ(ledger.view(node()).free_units, 44U);
  EXPECT_TRUE(ledger.problems().empty());
}

// After a restart of the extender. Only the running container knows which GPU it has.
TEST_F(StartedPod, FencesTheNodeIfItsGpusAreUnknown) {
  const PodSpec pod = started(bound_whole("p", "a", {1}));
  const PodSpec other = started(bound_whole("o", "a", {2}));
  ledger.upsert_pod(without_record(pod));
  ledger.upsert_pod(without_record(pod));  // a heartbeat
  EXPECT_EQ(fence(), Fence::kUnrecordedPod);
  EXPECT_EQ(ledger.states().largest_free(node()), 0U);
  EXPECT_EQ(ledger.states().whole_free(node()), 0U);
  EXPECT_EQ(ledger.fence_text(node()),
            "pod ml/p has started but has no valid record, so it is not known which GPUs are free; "
            "tessera-agent there repairs the record, else delete the pod");
  EXPECT_EQ(ledger.problem_count(ProblemKind::kUnrecordedPod), 1U);
  EXPECT_EQ(ledger.problem_total(ProblemKind::kUnrecordedPod), 1U);
  Placer placer(ledger);
  const Request request = request_of(share_pod("q", 1));
  EXPECT_EQ(placer.reason(request, node()), Reason::kUnrecordedPod);
  EXPECT_EQ(phrase(Reason::kUnrecordedPod, request, Unit::gib(), ResourceNames()),
            "a running pod has no valid GPU record (run tessera check)");

  PodSpec broken = other;
  broken.annotations[std::string(key::kAllocation)] = "broken";
  ledger.upsert_pod(broken);
  EXPECT_THAT(std::string(ledger.fence_text(node())),
              ::testing::HasSubstr("pod ml/o and 1 more have started but have no valid record"));

  ledger.upsert_pod(pod);
  EXPECT_EQ(fence(), Fence::kUnrecordedPod);
  ledger.upsert_pod(other);
  EXPECT_EQ(fence(), Fence::kOpen) << "the agent has repaired both records";
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(16, 0, 0));
  EXPECT_TRUE(ledger.problems().empty());

  ledger.remove_pod(pod.uid);
  ledger.upsert_pod(without_record(pod));
  ASSERT_EQ(fence(), Fence::kUnrecordedPod);
  ledger.remove_pod(pod.uid);
  EXPECT_EQ(fence(), Fence::kOpen) << "the pod has ended";
}

// The agent holds such a pod. Otherwise every stray pod would fence a node.
TEST_F(StartedPod, DoesNotFenceTheNodeForAPodThatHasNotStarted) {
  ledger.upsert_pod(without_record(bound_whole("p", "a", {1})));
  EXPECT_EQ(fence(), Fence::kOpen);
  PodSpec cpu_only = started(pod_of("web", {container("main", 0)}));
  cpu_only.node_name = "a";
  ledger.upsert_pod(cpu_only);
  EXPECT_EQ(fence(), Fence::kOpen);
}

TEST_F(StartedPod, CountsOnTheOnlyGpuWithoutARecord) {
  ledger.upsert_node(node_of("a", {16}));
  ledger.upsert_pod(without_record(started(bound_share("p", 4, "a", 0))));
  EXPECT_EQ(fence(), Fence::kOpen);
  EXPECT_THAT(free_on(ledger, "a"), ElementsAre(12));
  ledger.upsert_node(node_of("a", {16, 16}));
  EXPECT_EQ(fence(), Fence::kUnrecordedPod) << "it may have either GPU";
  ledger.upsert_node(node_of("a", {16}));
  EXPECT_EQ(fence(), Fence::kOpen);
}

TEST_F(StartedPod, FencesTheNodeIfAnOriginalRecordNamesNoGpuOfIt) {
  PodSpec pod = started(share_pod("p", 4));
  pod.node_name = "a";
  pod.annotations["ALIYUN_COM_GPU_MEM_IDX"] = "7";
  pod.annotations["ALIYUN_COM_GPU_MEM_POD"] = "4";
  ledger.upsert_pod(pod);
  EXPECT_EQ(fence(), Fence::kUnrecordedPod);
}

}  // namespace
}  // namespace tessera::alloc::testing
