// One test for each defect of the original systems that the ledger or the placer could have as
// well: E for the share extender, D for its device plugin, T for the topology scheduler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "alloc/explain.h"
#include "alloc/original_record.h"
#include "base/json_reader.h"
#include "cluster.h"
#include "topology/static_sets.h"

namespace tessera::alloc::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Defect : public ::testing::Test {
 protected:
  NodeId id(const std::string& node) { return ledger.find_node(node).value(); }
  std::vector<std::uint32_t> free_on(const std::string& node) {
    const NodeView view = ledger.view(id(node));
    return {view.free.begin(), view.free.end()};
  }
  bool fits(const PodSpec& pod, const std::string& node) {
    return placer.choose(request_of(pod), id(node)).has_value();
  }
  std::vector<ProblemKind> problems() {
    std::vector<ProblemKind> kinds;
    for (const Problem& problem : ledger.problems()) {
      kinds.push_back(problem.kind);
    }
    return kinds;
  }
  static PodSpec original_pod(const std::string& name, std::int64_t units, const std::string& node,
                              const char* idx, const char* pod_units) {
    PodSpec pod = share_pod(name, units);
    pod.node_name = node;
    pod.annotations["ALIYUN_COM_GPU_MEM_IDX"] = idx;
    pod.annotations["ALIYUN_COM_GPU_MEM_POD"] = pod_units;
    return pod;
  }

  Ledger ledger;
  Placer placer{ledger};
};

TEST_F(Defect, E1_GpusOfDifferentSizeAreNotAveraged) {
  ledger.upsert_node(node_of("a", {8, 16}));
  EXPECT_TRUE(fits(share_pod("p", 16), "a"));
  EXPECT_FALSE(fits(share_pod("p", 17), "a"));
  ledger.upsert_pod(bound_share("x", 16, "a", 1));
  EXPECT_FALSE(fits(share_pod("p", 12), "a"));
}

TEST_F(Defect, E2_FollowsAddedAndRemovedGpusAtOnce) {
  ledger.upsert_node(node_of("a", {16}));
  ledger.upsert_pod(bound_share("x", 4, "a", 0));
  ledger.upsert_node(node_of("a", {16, 16}));
  EXPECT_THAT(free_on("a"), ElementsAre(12, 16));
  ledger.upsert_node(original_node("b", 30, 2));
  ledger.upsert_node(original_node("b", 60, 4));
  EXPECT_THAT(free_on("b"), ElementsAre(15, 15, 15, 15));
}

TEST_F(Defect, E3_AcceptsACountThatArrivesBeforeTheMemory) {
  ledger.upsert_node(original_node("a", 0, 2));
  EXPECT_FALSE(fits(share_pod("p", 3), "a"));
  ledger.upsert_node(original_node("a", 30, 2));
  EXPECT_TRUE(fits(share_pod("p", 3), "a"));
}

TEST_F(Defect, E4_OvercommittedGpuCountsAsFull) {
  ledger.upsert_node(node_of("a", {16}));
  ledger.upsert_pod(bound_share("x", 12, "a", 0));
  ledger.upsert_node(node_of("a", {8}));
  EXPECT_THAT(free_on("a"), ElementsAre(0));
  EXPECT_FALSE(fits(share_pod("p", 1), "a"));
  EXPECT_THAT(problems(), ElementsAre(ProblemKind::kOvercommitted));
  EXPECT_EQ(ledger.problem_count(ProblemKind::kOvercommitted), 1U);
  ledger.remove_pod("uid-x");
  EXPECT_THAT(free_on("a"), ElementsAre(8));
  EXPECT_THAT(problems(), IsEmpty());
}

TEST_F(Defect, E5_MemoryIsNotAllocatedAgainWhileAContainerRuns) {
  ledger.upsert_node(node_of("a", {16}));
  PodSpec pod = bound_share("x", 12, "a", 0);
  pod.containers[0].state = ContainerState::kRunning;
  ledger.upsert_pod(pod);
  pod.deleting = true;
  ledger.upsert_pod(pod);
  EXPECT_THAT(free_on("a"), ElementsAre(4));
  pod.containers[0].state = ContainerState::kTerminated;
  ledger.upsert_pod(pod);
  EXPECT_THAT(free_on("a"), ElementsAre(4)) << "a kubelet without the API server may start it again";
  pod.phase = PodPhase::kFailed;
  ledger.upsert_pod(pod);
  EXPECT_THAT(free_on("a"), ElementsAre(16));
}

TEST_F(Defect, E6_PodOnARemovedNodeDoesNotBlockOthers) {
  ledger.upsert_pod(bound_share("x", 3, "gone", 0));
  ledger.upsert_node(node_of("a", {16}));
  EXPECT_TRUE(fits(share_pod("p", 3), "a"));
  EXPECT_EQ(placer.reason(request_of(share_pod("p", 3)), id("gone")), Reason::kUnknownNode);
}

TEST_F(Defect, E8_UnknownNodesGetAReason) {
  EXPECT_EQ(ledger.find_node("unknown"), std::nullopt);
  EXPECT_EQ(ledger.holding("unknown"), std::nullopt);
  ledger.remove_node("unknown");
  ledger.remove_pod("unknown");
}

TEST_F(Defect, E9_InvalidEntryOfTheUnhealthyListIsNotGpu0) {
  NodeSpec node = original_node("a", 30, 2);
  node.unhealthy_gpus = "x,1, ,-3";
  ledger.upsert_node(node);
  EXPECT_EQ(ledger.view(id("a")).healthy, 0b01U);
  EXPECT_THAT(unhealthy_indices("2, nonsense,0"), ElementsAre(2, 0));
}

TEST_F(Defect, E12_InitContainersCount) {
  ledger.upsert_node(node_of("a", {16}));
  const PodSpec pod = pod_of("p", {container("i", 12, 0, ContainerKind::kInit), container("m", 0)});
  const Choice choice = placer.choose_best(request_of(pod)).value();
  ledger.reserve(key_of(pod), request_of(pod), choice).value().commit();
  EXPECT_THAT(free_on("a"), ElementsAre(4));
}

TEST_F(Defect, E13_PodSplitOverSeveralGpusGetsThem) {
  ledger.upsert_node(node_of("a", {16, 16}));
  PodSpec pod = share_pod("p", 20);
  EXPECT_FALSE(fits(pod, "a"));
  pod.labels["aliyun.com/gpu-count"] = "2";
  const Choice choice = placer.choose_best(request_of(pod)).value();
  ledger.reserve(key_of(pod), request_of(pod), choice).value().commit();
  EXPECT_THAT(free_on("a"), ElementsAre(6, 6));
}

TEST_F(Defect, E14_PacksNodesAndNotOnlyGpus) {
  ledger.upsert_node(node_of("a", {16}));
  ledger.upsert_node(node_of("b", {16}));
  ledger.upsert_pod(bound_share("x", 8, "b", 0));
  EXPECT_EQ(ledger.node_name(placer.choose_best(request_of(share_pod("p", 3))).value().node), "b");
}

TEST_F(Defect, E17_ForgedAnnotationsAreIgnored) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(original_pod("more-than-requested", 1, "a", "0", "16"));
  ledger.upsert_pod(original_pod("less-than-requested", 16, "a", "1", "1"));
  ledger.upsert_pod(original_pod("no-such-gpu", 3, "a", "7", "3"));
  ledger.upsert_pod(bound(share_pod("forged", 2), "a", {{.gpu = uuid_of("a", 0), .units = 9}}));
  ledger.upsert_pod(bound(share_pod("wrong-gpu", 2), "a", {{.gpu = "GPU-elsewhere", .units = 2}}));
  PodSpec garbage = bound_share("garbage", 2, "a", 0);
  garbage.annotations["tessera.io/allocation"] = "{{{";
  ledger.upsert_pod(garbage);
  EXPECT_THAT(free_on("a"), ElementsAre(16, 16));
  EXPECT_EQ(ledger.problem_count(ProblemKind::kWrongRecord), 3U);
  EXPECT_EQ(ledger.problem_count(ProblemKind::kUnknownIndex), 1U);
  EXPECT_EQ(ledger.problem_count(ProblemKind::kLostGpu), 1U);
  EXPECT_EQ(ledger.problem_count(ProblemKind::kUnreadableRecord), 1U);
  EXPECT_EQ(ledger.problem_total(ProblemKind::kWrongRecord), 3U);
  ledger.upsert_pod(garbage);
  EXPECT_EQ(ledger.problem_total(ProblemKind::kUnreadableRecord), 1U) << "each problem is counted once";
}

TEST_F(Defect, E17_PodWithoutARequestHoldsNothing) {
  ledger.upsert_node(node_of("a", {16}));
  PodSpec pod = pod_of("no-request", {container("main", 0)});
  pod.node_name = "a";
  pod.annotations["tessera.io/allocation"] =
      Record{{{"main", {{.gpu = uuid_of("a", 0), .whole = true}}}}}.json();
  pod.annotations["ALIYUN_COM_GPU_MEM_IDX"] = "0";
  pod.annotations["ALIYUN_COM_GPU_MEM_POD"] = "16";
  ledger.upsert_pod(pod);
  EXPECT_THAT(free_on("a"), ElementsAre(16));
}

TEST_F(Defect, D1_ServesAPodWithTwoGpuContainers) {
  ledger.upsert_node(node_of("a", {16, 16}));
  const PodSpec pod = pod_of("p", {container("a", 3), container("b", 5)});
  const Request request = request_of(pod);
  const Record record = placer.choose_best(request).value().record;
  const std::vector<GpuName> gpus = ledger.gpu_names(id("a"));
  EXPECT_EQ(container_env(request.gpus, record, gpus, "a").at("ALIYUN_COM_GPU_MEM_CONTAINER"), "3");
  EXPECT_EQ(container_env(request.gpus, record, gpus, "b").at("ALIYUN_COM_GPU_MEM_CONTAINER"), "5");
  EXPECT_EQ(container_env(request.gpus, record, gpus, "b").at("ALIYUN_COM_GPU_MEM_POD"), "8");
}

TEST_F(Defect, D2_EqualPodsKeepTheirOwnGpus) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("second", 12, "a", 1));
  ledger.upsert_pod(bound_share("first", 12, "a", 0));
  EXPECT_EQ(ledger.holding("uid-first")->shares.at(0).share.gpu, uuid_of("a", 0));
  ledger.remove_pod("uid-second");
  EXPECT_THAT(free_on("a"), ElementsAre(4, 16));
}

TEST_F(Defect, D3_EachGpuHasItsOwnMemory) {
  ledger.upsert_node(node_of("a", {16, 80}));
  const std::vector<GpuName> gpus = ledger.gpu_names(id("a"));
  const GpuRequest request = request_of(share_pod("p", 3)).gpus;
  const Record record{{{"main", {{.gpu = uuid_of("a", 1), .units = 3}}}}};
  EXPECT_EQ(container_env(request, record, gpus, "main").at("ALIYUN_COM_GPU_MEM_DEV"), "80");
}

TEST_F(Defect, D5_MinorNumbersAreNotIndices) {
  Inventory inventory = inventory_of("a", {16, 16});
  inventory.gpus[0].minor = 3;
  inventory.gpus[1].minor = 0;
  ledger.upsert_node(node_with("a", inventory));
  ledger.upsert_pod(original_pod("x", 3, "a", "0", "3"));
  EXPECT_THAT(free_on("a"), ElementsAre(13, 16));
  ledger.upsert_pod(original_pod("y", 3, "a", "3", "3"));
  EXPECT_THAT(problems(), ElementsAre(ProblemKind::kUnknownIndex));
}

TEST_F(Defect, D7_ReplacedGpuIsNotMistakenForTheOldOne) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("x", 3, "a", 0));
  Inventory inventory = inventory_of("a", {16, 16});
  inventory.gpus[0].uuid = "GPU-after-the-restart";
  ledger.upsert_node(node_with("a", inventory));
  EXPECT_THAT(free_on("a"), ElementsAre(16, 16));
  ASSERT_THAT(problems(), ElementsAre(ProblemKind::kLostGpu));
  EXPECT_EQ(ledger.problems().front().uid, "uid-x");
  EXPECT_EQ(ledger.problems()[0].text,
            "pod ml/x holds GPU \"GPU-a-0\", which node a does not have; delete the pod so that it is "
            "scheduled again");
  ledger.upsert_node(node_of("a", {16, 16}));
  EXPECT_THAT(free_on("a"), ElementsAre(13, 16)) << "the GPU is back";
}

TEST_F(Defect, D8_CanSubtractTheMemoryOfTheDriver) {
  Inventory inventory = inventory_of("a", {16});
  inventory.gpus[0].reserved_mib = 500;
  ledger.upsert_node(node_with("a", inventory));
  EXPECT_THAT(free_on("a"), ElementsAre(16));
  inventory.subtract_reserved = true;
  ledger.upsert_node(node_with("a", inventory));
  EXPECT_THAT(free_on("a"), ElementsAre(15));
}

TEST_F(Defect, D10_UnhealthyGpuIsNotChosen) {
  Inventory inventory = inventory_of("a", {16});
  ledger.upsert_node(node_with("a", inventory));
  inventory.gpus[0].unhealthy = "XID 79";
  ledger.upsert_node(node_with("a", inventory));
  EXPECT_FALSE(fits(share_pod("p", 3), "a"));
  inventory.gpus[0].unhealthy = "";
  ledger.upsert_node(node_with("a", inventory));
  EXPECT_TRUE(fits(share_pod("p", 3), "a")) << "the GPU has recovered";
}

class TopologyDefect : public Defect {
 protected:
  // Two GPUs on one PCIe switch, the rest across sockets.
  static Inventory one_near_pair(const std::string& node) {
    Inventory inventory = inventory_of(node, {16, 16, 16, 16});
    for (unsigned a = 0; a < 4; ++a) {
      for (unsigned b = a + 1; b < 4; ++b) {
        inventory.topology.set_link(
            a, b, {.path = a == 1 && b == 2 ? topology::PciePath::kPix : topology::PciePath::kSys});
      }
    }
    return inventory;
  }
  GpuMask chosen(std::int64_t gpus, const std::string& policy) {
    PodSpec pod = whole_pod("p", gpus);
    pod.annotations["tessera.io/policy"] = policy;
    return placer.choose_best(request_of(pod)).value().whole_gpus;
  }
};

TEST_F(TopologyDefect, T3_PrefersNearGpusToFarOnes) {
  ledger.upsert_node(node_with("a", one_near_pair("a")));
  EXPECT_EQ(chosen(2, "ring"), 0b0110U);
  EXPECT_EQ(chosen(2, "best_effort"), 0b0110U);
  EXPECT_EQ(chosen(2, "prim"), 0b0110U);
}

TEST_F(TopologyDefect, T4_SimpleSkipsBusyGpus) {
  ledger.upsert_node(node_with("a", one_near_pair("a")));
  ledger.upsert_pod(bound_whole("x", "a", {0}));
  EXPECT_EQ(chosen(2, "simple"), 0b0110U);
  EXPECT_EQ(chosen(3, "simple"), 0b1110U);
}

TEST_F(TopologyDefect, T5_BestEffortChoosesASingleGpu) {
  ledger.upsert_node(node_of("a", {16, 16}));  // without links all scores are 0
  EXPECT_EQ(topology::gpu_count(chosen(1, "best_effort")), 1U);
  EXPECT_EQ(topology::gpu_count(chosen(2, "best_effort")), 2U);
}

// T6, scores outside of the range of kube-scheduler: the extender returns ranks
// (DecisionsTest.Prioritize*).

TEST_F(TopologyDefect, T7_ServesAMachineThatIsInNoTable) {
  const auto document = parse_json(R"({"known":{"2":[[0,3]]}})").value();
  const auto sets = topology::StaticSets::from_json(JsonReader(document, "sets")).value();
  Placer with_tables(ledger, {.whole_policy = Policy::kStatic,
                              .static_sets = std::make_shared<const topology::StaticSets>(sets)});
  Inventory inventory = one_near_pair("a");
  inventory.machine = "known";
  ledger.upsert_node(node_with("a", inventory));
  const Request pair = request_of(whole_pod("p", 2));
  EXPECT_EQ(with_tables.choose_best(pair).value().whole_gpus, 0b1001U);
  ledger.upsert_pod(bound_whole("x", "a", {0}));
  EXPECT_EQ(with_tables.choose_best(pair).value().whole_gpus, 0b0110U) << "no listed set is free";
  inventory.machine = "unknown";
  ledger.upsert_node(node_with("a", inventory));
  EXPECT_EQ(with_tables.choose_best(pair).value().whole_gpus, 0b0110U);
}

TEST_F(TopologyDefect, T8_LinksOfGpusDoNotChangeWhenTheyAreUsed) {
  ledger.upsert_node(node_with("a", one_near_pair("a")));
  ledger.upsert_pod(bound_whole("x", "a", {1}));
  EXPECT_NE(chosen(2, "ring"), 0b0110U);
  ledger.remove_pod("uid-x");
  EXPECT_EQ(chosen(2, "ring"), 0b0110U);
}

// The search itself is tested in tests/topology/prim_test.cc.
TEST_F(TopologyDefect, T12_PrimTakesNeitherHeldNorUnhealthyGpus) {
  for (unsigned held = 0; held < 16; ++held) {
    for (unsigned unhealthy = 0; unhealthy < 16; ++unhealthy) {
      Inventory inventory = one_near_pair("a");
      for (const unsigned gpu : topology::GpuIndices(unhealthy)) {
        inventory.gpus[gpu].unhealthy = "XID 79";
      }
      ledger.upsert_node(node_with("a", inventory));
      for (unsigned gpu = 0; gpu < 4; ++gpu) {
        const std::string name = fmt::format("x{}", gpu);
        ledger.remove_pod("uid-" + name);
        if ((held >> gpu & 1U) != 0) {
          ledger.upsert_pod(gpu % 2 == 0 ? bound_whole(name, "a", {gpu}) : bound_share(name, 1, "a", gpu));
        }
      }
      const GpuMask free = 0xf & ~(held | unhealthy);
      for (unsigned count = 1; count <= 4; ++count) {
        PodSpec pod = whole_pod("p", count);
        pod.annotations["tessera.io/policy"] = "prim";
        const auto choice = placer.choose_best(request_of(pod));
        ASSERT_EQ(choice.has_value(), count <= topology::gpu_count(free)) << held << " " << unhealthy;
        if (choice) {
          ASSERT_EQ(topology::gpu_count(choice->whole_gpus), count);
          ASSERT_EQ(choice->whole_gpus & ~free, 0U) << held << " " << unhealthy;
        }
      }
    }
  }
}

TEST_F(TopologyDefect, T9_GpuIsFreeAfterTheLastOfItsPodsHasEnded) {
  ledger.upsert_node(node_of("a", {16}));
  ledger.upsert_pod(bound_share("x", 3, "a", 0));
  ledger.upsert_pod(bound_share("y", 3, "a", 0));
  ledger.remove_pod("uid-x");
  EXPECT_FALSE(fits(whole_pod("p", 1), "a"));
  ledger.upsert_pod(bound_whole("forced", "a", {0}));
  ledger.remove_pod("uid-y");
  EXPECT_FALSE(fits(whole_pod("p", 1), "a"));
  ledger.remove_pod("uid-forced");
  EXPECT_TRUE(fits(whole_pod("p", 1), "a"));
}

TEST_F(TopologyDefect, T10_TwoChoicesCannotReserveOneGpu) {
  ledger.upsert_node(node_of("a", {16}));
  const PodSpec one = whole_pod("one", 1);
  const PodSpec two = whole_pod("two", 1);
  const Choice first = placer.choose_best(request_of(one)).value();
  const Choice second = placer.choose_best(request_of(two)).value();
  const auto hold = ledger.reserve(key_of(one), request_of(one), first);
  ASSERT_TRUE(hold);
  EXPECT_EQ(ledger.reserve(key_of(two), request_of(two), second).error().code(), ErrorCode::kConflict);
}

TEST_F(TopologyDefect, T13_SingleGpuDoesNotBreakUpGoodPairs) {
  ledger.upsert_node(node_with("a", one_near_pair("a")));
  EXPECT_EQ(chosen(1, "ring") & 0b0110U, 0U);
  EXPECT_EQ(placer.choose_best(request_of(share_pod("p", 3))).value().share_gpus & 0b0110U, 0U);
}

TEST_F(Defect, PodWithoutRecordCountsOnANodeWithOneGpu) {
  ledger.upsert_node(node_of("one", {16}));
  ledger.upsert_node(node_of("two", {16, 16}));
  PodSpec pod = share_pod("x", 3);
  pod.node_name = "one";
  ledger.upsert_pod(pod);
  EXPECT_THAT(free_on("one"), ElementsAre(13));
  EXPECT_THAT(problems(), IsEmpty());
  PodSpec other = share_pod("y", 3);
  other.node_name = "two";
  ledger.upsert_pod(other);
  EXPECT_THAT(free_on("two"), ElementsAre(16, 16));
  ASSERT_THAT(problems(), ElementsAre(ProblemKind::kUndecided));
  EXPECT_THAT(ledger.problems()[0].text, HasSubstr("pod ml/y runs on node two without a GPU allocation"));
}

}  // namespace
}  // namespace tessera::alloc::testing
