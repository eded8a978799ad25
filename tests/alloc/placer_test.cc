#include "alloc/placer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "alloc/query.h"
#include "alloc/score_cache.h"
#include "alloc/search_budget.h"
#include "base/json_reader.h"
#include "cluster.h"

namespace tessera::alloc::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The quads of a DGX-1V: GPUs 0-3 and 4-7 are meshes of NVLinks; PCIe and QPI connect the two.
Inventory two_quads(const std::string& node) {
  Inventory inventory = inventory_of(node, std::vector<std::uint32_t>(8, 32));
  for (unsigned a = 0; a < 8; ++a) {
    for (unsigned b = a + 1; b < 8; ++b) {
      const bool linked = a / 4 == b / 4;
      inventory.topology.set_link(a, b,
                                  {.path = linked ? topology::PciePath::kPhb : topology::PciePath::kSys,
                                   .nvlinks = static_cast<std::uint8_t>(linked ? 2 : 0),
                                   .generation = static_cast<std::uint8_t>(linked ? 2 : 0)});
    }
  }
  return inventory;
}

class PlacerTest : public ::testing::Test {
 protected:
  // The best choice for the pod: "node:share GPUs/whole GPUs".
  std::string place(const PodSpec& pod) { return place(request_of(pod)); }
  std::string place(const Request& request) {
    const auto choice = placer.choose_best(request);
    return choice
               ? fmt::format("{}:{}/{}", ledger.node_name(choice->node),
                             topology::gpu_list(choice->share_gpus), topology::gpu_list(choice->whole_gpus))
               : choice.error().text();
  }
  std::string refusal(const PodSpec& pod, const std::string& node) {
    const auto choice = placer.choose(request_of(pod), ledger.find_node(node).value());
    return choice ? "fits" : choice.error().text();
  }
  static PodSpec with(PodSpec pod, std::string_view annotation, const std::string& value) {
    pod.annotations[std::string(annotation)] = value;
    return pod;
  }

  Ledger ledger;
  Placer placer{ledger};
};

TEST_F(PlacerTest, BinpackChoosesTheSharedGpuWithTheLeastFree) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_node(node_of("b", {16, 16}));
  ledger.upsert_pod(bound_share("x", 8, "a", 1));
  ledger.upsert_pod(bound_share("y", 11, "b", 0));
  EXPECT_EQ(place(share_pod("p", 5)), "b:0/");
  EXPECT_EQ(place(share_pod("p", 6)), "a:1/");
  EXPECT_EQ(place(share_pod("p", 9)), "b:1/") << "of two empty GPUs the one on the fuller node";
}

TEST_F(PlacerTest, BinpackPrefersASharedLargeGpuToAFreeSmallOne) {
  ledger.upsert_node(node_of("a", {80, 8}));
  ledger.upsert_pod(bound_share("x", 10, "a", 0));
  EXPECT_EQ(place(share_pod("p", 8)), "a:0/");
}

TEST_F(PlacerTest, SpreadChoosesTheGpuWithTheMostFree) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_node(node_of("b", {16, 16}));
  ledger.upsert_pod(bound_share("x", 8, "a", 1));
  EXPECT_EQ(place(with(share_pod("p", 3), key::kPolicy, "spread")), "b:0/");
}

TEST_F(PlacerTest, ShareUsesTheGroupThatIsAlreadyBrokenUp) {
  ledger.upsert_node(node_with("a", two_quads("a")));
  ledger.upsert_pod(bound_whole("x", "a", {5}));
  EXPECT_EQ(place(share_pod("p", 3)), "a:4/");
}

TEST_F(PlacerTest, WholeGpusAreWellConnected) {
  ledger.upsert_node(node_with("a", two_quads("a")));
  ledger.upsert_pod(bound_whole("x", "a", {0}));
  ledger.upsert_pod(bound_share("y", 1, "a", 7));
  EXPECT_EQ(place(whole_pod("p", 3)), "a:/1-3");
  ledger.upsert_pod(bound_whole("z", "a", {1}));
  EXPECT_EQ(place(whole_pod("p", 3)), "a:/4-6");
}

TEST_F(PlacerTest, WholeGpusFillNodesThatAreAlreadyBrokenUp) {
  ledger.upsert_node(node_with("a", two_quads("a")));
  ledger.upsert_node(node_with("b", two_quads("b")));
  ledger.upsert_pod(bound_whole("x", "b", {0, 1, 2, 3}));
  EXPECT_EQ(place(whole_pod("p", 4)), "b:/4-7");
  EXPECT_EQ(place(whole_pod("p", 5)), "a:/0-4");
}

TEST_F(PlacerTest, WholePodsLeaveLargeGpusForShares) {
  ledger.upsert_node(node_of("a", {80, 16, 80, 16}));
  EXPECT_EQ(place(whole_pod("p", 1)), "a:/1");
  EXPECT_EQ(place(whole_pod("p", 2)), "a:/1,3");
}

TEST_F(PlacerTest, SharesAndWholeGpusOfOnePodAreOnDifferentGpus) {
  ledger.upsert_node(node_of("a", {16, 16, 16}));
  const PodSpec pod = pod_of("p", {container("a", 16), container("b", 0, 2)});
  EXPECT_EQ(place(pod), "a:0/1-2");
  ledger.upsert_pod(bound_share("x", 1, "a", 0));
  EXPECT_EQ(refusal(pod, "a"), "fewer than 2 GPUs are wholly free");
  EXPECT_EQ(place(pod_of("p", {container("a", 15), container("b", 0, 2)})), "a:0/1-2");
}

TEST_F(PlacerTest, SpreadDoesNotUseTheWholeGpusOfTheSamePod) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("x", 4, "a", 0));
  const PodSpec pod = with(pod_of("p", {container("a", 4), container("b", 0, 1)}), key::kPolicy, "spread");
  EXPECT_EQ(place(pod), "a:0/1");
}

TEST_F(PlacerTest, SplitsMemoryOverSeveralGpus) {
  ledger.upsert_node(node_of("a", {16, 16, 16, 16}));
  ledger.upsert_pod(bound_share("x", 12, "a", 2));
  PodSpec pod = share_pod("p", 12);
  pod.labels["aliyun.com/gpu-count"] = "3";
  const Request request = request_of(pod);
  EXPECT_EQ(place(request), "a:0-2/");
  const Record record = placer.choose_best(request).value().record;
  EXPECT_THAT(record.containers[0].shares, ::testing::SizeIs(3));
  EXPECT_EQ(record.containers[0].shares[2], (GpuShare{.gpu = uuid_of("a", 2), .units = 4}));
  pod.labels["aliyun.com/gpu-count"] = "2";
  pod.containers = {container("main", 32)};
  EXPECT_EQ(place(pod), "a:0-1/");
  pod.containers = {container("main", 34)};
  EXPECT_EQ(refusal(pod, "a"), "fewer than 2 GPUs are as large as 17GiB");
  pod.labels["aliyun.com/gpu-count"] = "5";
  pod.containers = {container("main", 5)};
  EXPECT_EQ(refusal(pod, "a"), "fewer than 5 GPUs");
  pod.labels["aliyun.com/gpu-count"] = "4";
  pod.containers = {container("main", 32)};
  EXPECT_EQ(refusal(pod, "a"), "fewer than 4 GPUs have 8GiB free each");
}

TEST_F(PlacerTest, PlacesContainersSeparately) {
  ledger.upsert_node(node_of("a", {16, 16}));
  PodSpec pod = with(pod_of("p", {container("a", 10), container("b", 10)}), key::kPlacement, "per-container");
  const Request request = request_of(pod);
  EXPECT_EQ(place(request), "a:0-1/");
  const Record record = placer.choose_best(request).value().record;
  EXPECT_NE(record.find("a")->shares[0].gpu, record.find("b")->shares[0].gpu);
  pod.annotations.clear();
  EXPECT_EQ(refusal(pod, "a"), "no GPU is as large as 20GiB");
}

TEST_F(PlacerTest, BacktracksToFindAPacking) {
  // Largest part first, tightest GPU first: 6 goes to the 8, then 5 and 3 to the 9, and the last 3
  // does not fit. The search must backtrack and put 6 on the 9.
  ledger.upsert_node(node_of("a", {9, 8}));
  const PodSpec pod =
      with(pod_of("p", {container("a", 6), container("b", 5), container("c", 3), container("d", 3)}),
           key::kPlacement, "per-container");
  EXPECT_EQ(place(pod), "a:0-1/");
  EXPECT_EQ(refusal(with(pod_of("p", {container("a", 6), container("b", 6), container("c", 4)}),
                         key::kPlacement, "per-container"),
                    "a"),
            "the containers do not all fit on the free GPUs");
}

// Returns a pod with a container of each size, placed separately.
PodSpec separate(const std::vector<std::int64_t>& sizes) {
  std::vector<ContainerSpec> containers;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    containers.push_back(container(fmt::format("c{}", i), sizes[i]));
  }
  PodSpec pod = pod_of("p", std::move(containers));
  pod.annotations[std::string(key::kPlacement)] = "per-container";
  return pod;
}

// No packing exists, because each GPU has an odd number of units and all sizes are even. Counting
// does not show it.
NodeSpec odd_node(const std::string& name) {
  return node_of(name, {21, 23, 25, 27, 29, 31, 33, 35});
}
PodSpec even_pod() {
  return separate(
      {18, 16, 16, 14, 14, 12, 12, 12, 10, 10, 10, 8, 8, 8, 6, 6, 6, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2});
}

TEST_F(PlacerTest, TriesEqualGpusAndEqualContainersOnce) {
  // Sixteen containers of 13 need two on each GPU. Then 6 are left on each, and 7 do not fit.
  ledger.upsert_node(node_of("a", std::vector<std::uint32_t>(8, 32)));
  std::vector<std::int64_t> sizes(16, 13);
  sizes.push_back(7);
  sizes.push_back(7);
  SearchBudget budget;
  const NodeId a = ledger.find_node("a").value();
  EXPECT_FALSE(placer.fits_without(request_of(separate(sizes)), a, {}, budget));
  EXPECT_FALSE(budget.ever_ended()) << "the search is complete";
  EXPECT_GT(budget.left(), SearchBudget::kSteps - 1'000) << "all orders would take millions";
  sizes.resize(16);
  sizes.push_back(6);
  EXPECT_TRUE(placer.fits_without(request_of(separate(sizes)), a, {}, budget));
}

TEST_F(PlacerTest, CountsBeforeItSearches) {
  // 17 containers of 16, but each of 8 GPUs has room for two. The total would suffice.
  ledger.upsert_node(node_of("a", std::vector<std::uint32_t>(8, 40)));
  SearchBudget budget;
  EXPECT_FALSE(placer.fits_without(request_of(separate(std::vector<std::int64_t>(17, 16))),
                                   ledger.find_node("a").value(), {}, budget));
  EXPECT_EQ(budget.left(), SearchBudget::kSteps);
  EXPECT_FALSE(budget.ever_ended());
}

TEST_F(PlacerTest, SaysThatASearchEndedAtItsLimit) {
  ledger.upsert_node(odd_node("a"));
  EXPECT_EQ(
      refusal(even_pod(), "a"),
      "the pod has too many GPU containers to find a GPU for each (tessera.io/placement: per-container)");
  EXPECT_FALSE(eviction_may_help(placer.reason(request_of(even_pod()), ledger.find_node("a").value())))
      << "no pod is evicted on a guess";
}

TEST_F(PlacerTest, SearchesAllNodesOfACallWithOneBudget) {
  for (int i = 0; i < 30; ++i) {
    ledger.upsert_node(odd_node(fmt::format("n{}", i)));
  }
  ledger.upsert_node(node_of("roomy", std::vector<std::uint32_t>(8, 80)));
  const Request request = request_of(even_pod());
  SearchBudget budget;
  for (const NodeId node : ledger.nodes_by_name()) {
    // "roomy" is the last node. Nothing is left, but its first try succeeds.
    EXPECT_EQ(placer.fits_without(request, node, {}, budget), ledger.node_name(node) == "roomy");
  }
  EXPECT_EQ(budget.left(), 0U);
  EXPECT_TRUE(budget.ever_ended());
  EXPECT_EQ(place(request), "roomy:0-2/");
}

TEST_F(PlacerTest, InitContainersUseGpusThatOthersGetAfterThem) {
  ledger.upsert_node(node_of("a", {16, 16}));
  const PodSpec pod =
      with(pod_of("p", {container("i", 12, 0, ContainerKind::kInit), container("a", 12), container("b", 3)}),
           key::kPlacement, "per-container");
  const Request request = request_of(pod);
  EXPECT_EQ(place(request), "a:0/");
  const Hold hold = ledger.reserve(key_of(pod), request, placer.choose_best(request).value()).value();
  EXPECT_EQ(ledger.view(*ledger.find_node("a")).free[0], 1U);
}

TEST_F(PlacerTest, DividesWholeGpusAmongContainersByLinks) {
  ledger.upsert_node(node_with("a", two_quads("a")));
  const PodSpec pod =
      pod_of("p", {container("i", 0, 6, ContainerKind::kInit), container("a", 0, 4), container("b", 0, 4)});
  const Request request = request_of(pod);
  const Record record = placer.choose_best(request).value().record;
  const auto quad_of = [&](const char* name) {
    std::vector<std::string> gpus;
    for (const GpuShare& share : record.find(name)->shares) {
      gpus.push_back(share.gpu);
    }
    return gpus;
  };
  EXPECT_THAT(quad_of("a"), ElementsAre("GPU-a-0", "GPU-a-1", "GPU-a-2", "GPU-a-3"));
  EXPECT_THAT(quad_of("b"), ElementsAre("GPU-a-4", "GPU-a-5", "GPU-a-6", "GPU-a-7"));
  EXPECT_EQ(record.find("i")->shares.size(), 6U);
  EXPECT_TRUE(held_shares(request.gpus, record));
}

TEST_F(PlacerTest, FgdKeepsRoomForTypicalPods) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("x", 4, "a", 0));
  ledger.upsert_pod(bound_share("y", 6, "a", 1));
  TypicalRequest typical;
  typical.shape.share = {.units = 10, .core_percent = 0, .gpus = 1};
  Placer fgd(ledger, {.share_policy = Policy::kFgd, .typical = {typical}});
  const Request request = request_of(share_pod("p", 2));
  EXPECT_EQ(fgd.choose_best(request).value().share_gpus, 0b01U)
      << "binpack would choose GPU 1 and leave no room for 10";
  EXPECT_EQ(placer.choose_best(request).value().share_gpus, 0b10U);
}

TEST_F(PlacerTest, CachedScoresEqualFreshOnes) {
  TypicalRequest typical;
  typical.shape.whole = 1;
  const std::vector<PodSpec> pods = {share_pod("p", 2),
                                     whole_pod("p", 1),
                                     whole_pod("p", 2),
                                     with(share_pod("p", 2), key::kGpuModel, "A100"),
                                     with(share_pod("p", 2), key::kGpuUuids, uuid_of("a", 1)),
                                     with(share_pod("p", 2), key::kPolicy, "spread"),
                                     pod_of("p", {container("a", 3), container("b", 0, 1)})};
  const std::vector<std::function<void()>> events = {
      [&] { ledger.upsert_node(node_of("a", {16, 16})); },
      [&] { ledger.upsert_node(node_of("b", {16, 32, 32})); },
      [&] { ledger.upsert_pod(bound_share("x", 3, "a", 0)); },
      [&] { ledger.upsert_pod(bound_whole("y", "b", {1})); },
      [&] { ledger.remove_node("a"); },
      [&] { ledger.remove_pod("uid-x"); },
      [&] { ledger.upsert_node(node_of("c", {32, 32})); },  // reuses the id of a
      [&] {
        Inventory unhealthy = inventory_of("b", {16, 32, 32});
        unhealthy.gpus[0].unhealthy = "Xid 79";
        ledger.upsert_node(node_with("b", unhealthy));
      },
      [&] { ledger.remove_pod("uid-y"); }};
  for (const Policy share_policy : {Policy::kBinpack, Policy::kSpread, Policy::kFgd}) {
    const Placer::Options options{.share_policy = share_policy, .typical = {typical}};
    Placer cached(ledger, options);
    for (const auto& event : events) {
      event();
      const std::vector<NodeId> nodes = ledger.nodes_by_name();
      for (const PodSpec& pod : pods) {
        std::vector<Score> from_cache(nodes.size());
        std::vector<Score> fresh(nodes.size());
        cached.score(request_of(pod), nodes, from_cache);
        Placer(ledger, options).score(request_of(pod), nodes, fresh);
        EXPECT_EQ(from_cache, fresh);
      }
    }
    ledger.remove_node("b");
    ledger.remove_node("c");
  }
}

TEST_F(PlacerTest, StaticScoresFollowAChangedMachineType) {
  Inventory box = inventory_of("a", {16, 16, 16});
  for (unsigned gpu = 0; gpu < 2; ++gpu) {
    box.topology.set_link(gpu, 2, {.nvlinks = static_cast<std::uint8_t>(1 + gpu), .generation = 2});
  }
  box.machine = "left";
  ledger.upsert_node(node_with("a", box));
  const auto document = parse_json(R"({"left": {"2": [[0,2]]}, "right": {"2": [[1,2]]}})").value();
  const auto sets = topology::StaticSets::from_json(JsonReader(document, "table")).value();
  Placer by_table(ledger, {.whole_policy = Policy::kStatic,
                           .static_sets = std::make_shared<const topology::StaticSets>(sets)});
  const std::vector<NodeId> nodes = ledger.nodes_by_name();
  std::vector<Score> left(1);
  std::vector<Score> right(1);
  by_table.score(request_of(whole_pod("p", 2)), nodes, left);
  box.machine = "right";
  ledger.upsert_node(node_with("a", box));
  by_table.score(request_of(whole_pod("p", 2)), nodes, right);
  EXPECT_GT(right, left);
}

// The firmware of all machines of a cloud reports one name, so the label of the node decides.
TEST_F(PlacerTest, StaticTablesAlsoFindMachinesByInstanceType) {
  const auto document = parse_json(R"({"cloud.8": {"2": [[0,2]]}, "cloud.9": {"2": [[1,2]]}})").value();
  const auto sets = topology::StaticSets::from_json(JsonReader(document, "table")).value();
  Placer by_table(ledger, {.whole_policy = Policy::kStatic,
                           .static_sets = std::make_shared<const topology::StaticSets>(sets)});
  Inventory box = inventory_of("a", {16, 16, 16});
  box.machine = "Cloud Virtual Machine";
  const auto chosen = [&](const std::string& instance_type) {
    NodeSpec node = node_with("a", box);
    node.machine = instance_type;
    ledger.upsert_node(node);
    return by_table.choose(request_of(whole_pod("p", 2)), *ledger.find_node("a"))->whole_gpus;
  };
  EXPECT_EQ(chosen("cloud.8"), 0b101U);
  EXPECT_EQ(chosen("cloud.9"), 0b110U);
  box.machine = "cloud.8";
  EXPECT_EQ(chosen("cloud.9"), 0b101U) << "the name from the agent comes first";
}

TEST_F(PlacerTest, RespectsModelsAndUuids) {
  ledger.upsert_node(node_of("a", {80, 80}));
  ledger.upsert_node(node_of("b", {16, 16}));
  EXPECT_EQ(place(with(share_pod("p", 3), key::kGpuModel, "A100")), "a:0/");
  EXPECT_EQ(place(with(share_pod("p", 3), key::kGpuModel, "t4,H100")), "b:0/");
  EXPECT_EQ(place(with(whole_pod("p", 1), key::kGpuUuids, "GPU-a-1")), "a:/1");
  EXPECT_EQ(place(with(share_pod("p", 3), key::kGpuUuidsExclude, "GPU-b-0")), "b:1/");
  EXPECT_EQ(refusal(with(share_pod("p", 3), key::kGpuModel, "A100"), "b"),
            "the pod's annotations allow none of the node's GPUs");
}

TEST_F(PlacerTest, ReasonsAreEqualForAllNodes) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("x", 9, "a", 0));
  ledger.upsert_pod(bound_share("y", 10, "a", 1));
  EXPECT_EQ(refusal(share_pod("p", 8), "a"), "no single GPU has 8GiB free");
  EXPECT_EQ(refusal(share_pod("p", 17), "a"), "no GPU is as large as 17GiB");
  EXPECT_EQ(refusal(whole_pod("p", 1), "a"), "no GPU is wholly free");
  EXPECT_EQ(refusal(whole_pod("p", 2), "a"), "fewer than 2 GPUs are wholly free");
  EXPECT_EQ(refusal(whole_pod("p", 3), "a"), "fewer than 3 GPUs");
}

TEST_F(PlacerTest, FastAndGeneralPathsGiveTheSameReason) {
  ledger.upsert_node(node_of("roomy", {32, 32}));
  ledger.upsert_node(node_of("small", {4, 4}));
  ledger.upsert_node(node_of("mixed", {16, 32}));
  ledger.upsert_node(node_of("full", {32}));
  ledger.upsert_pod(bound_whole("holder", "full", {0}));
  ledger.upsert_node(original_node("old", 32, 2));
  ledger.upsert_node(original_node("empty", 0, 0));
  Inventory unhealthy = inventory_of("unhealthy", {32});
  unhealthy.gpus[0].unhealthy = "Xid 79";
  ledger.upsert_node(node_with("unhealthy", unhealthy));
  Inventory mib = inventory_of("mib", {32});
  mib.unit = Unit::mib();
  ledger.upsert_node(node_with("mib", mib));
  const std::vector<NodeId> nodes = ledger.nodes_by_name();
  std::vector<Reason> quick(nodes.size());
  std::vector<Reason> slow(nodes.size());
  for (const PodSpec& pod : {share_pod("p", 2), share_pod("p", 20), whole_pod("p", 1), whole_pod("p", 2)}) {
    for (const char* model : {"", "A100", "T4", "H100"}) {
      const PodSpec constrained = *model == '\0' ? pod : with(pod, key::kGpuModel, model);
      placer.filter(request_of(constrained), nodes, quick);
      // Excluding a GPU that does not exist only forces the general path.
      placer.filter(request_of(with(constrained, key::kGpuUuidsExclude, "GPU-unknown")), nodes, slow);
      EXPECT_EQ(quick, slow) << model;
    }
  }
}

TEST_F(PlacerTest, FencesNodesWithADifferentUnit) {
  Inventory inventory = inventory_of("a", {16});
  inventory.unit = Unit::mib();
  ledger.upsert_node(node_with("a", inventory));
  EXPECT_EQ(refusal(share_pod("p", 3), "a"), "node does not use the cluster's GPU memory unit (GiB)");
  EXPECT_THAT(ledger.problems().at(0).text,
              HasSubstr("node a: its GPU memory unit is MiB but the cluster's is GiB"));
}

TEST_F(PlacerTest, OriginalPluginServesOnlySharesOfOneGpu) {
  ledger.upsert_node(original_node("a", 30, 2));
  EXPECT_EQ(place(share_pod("p", 15)), "a:0/");
  EXPECT_THAT(refusal(whole_pod("p", 1), "a"), HasSubstr("original device plugin"));
  PodSpec split = share_pod("p", 4);
  split.labels["aliyun.com/gpu-count"] = "2";
  EXPECT_THAT(refusal(split, "a"), HasSubstr("original device plugin"));
  // It looks for a pod whose total equals the amount of the container that kubelet allocates for.
  EXPECT_THAT(refusal(pod_of("p", {container("x", 2), container("y", 2)}), "a"),
              HasSubstr("original device plugin"));
  EXPECT_THAT(refusal(pod_of("p", {container("x", 2, 0, ContainerKind::kInit), container("y", 2)}), "a"),
              HasSubstr("original device plugin"));
  EXPECT_EQ(place(pod_of("p", {container("x", 2), container("y", 0)})), "a:0/");
  // The totals are equal, but the cached score of one request must not be used for the other.
  EXPECT_FALSE(placer.choose_best(request_of(pod_of("p", {container("x", 2), container("y", 2)}))));
  EXPECT_EQ(place(share_pod("p", 4)), "a:0/");
}

TEST_F(PlacerTest, ComputeSharesNeedMps) {
  PodSpec pod = share_pod("p", 3);
  pod.containers[0].gpu_limits.emplace_back(GpuResource::kCorePercent, Quantity::units(60));
  Inventory inventory = inventory_of("a", {16});
  ledger.upsert_node(node_with("a", inventory));
  EXPECT_EQ(refusal(pod, "a"), "aliyun.com/gpu-core.percentage needs a node with MPS");
  inventory.mps = true;
  ledger.upsert_node(node_with("a", inventory));
  const Choice choice = placer.choose_best(request_of(pod)).value();
  const Hold hold = ledger.reserve(key_of(pod), request_of(pod), choice).value();
  EXPECT_EQ(refusal(pod, "a"), "no single GPU has 3GiB and 60% compute free");
}

TEST_F(PlacerTest, DoesNotUseUnhealthyGpus) {
  Inventory inventory = inventory_of("a", {16, 16});
  inventory.gpus[0].unhealthy = "XID 79";
  ledger.upsert_node(node_with("a", inventory));
  EXPECT_EQ(place(share_pod("p", 3)), "a:1/");
  EXPECT_EQ(place(whole_pod("p", 1)), "a:/1");
  EXPECT_EQ(refusal(whole_pod("p", 2), "a"), "free GPUs are unhealthy");
}

TEST_F(PlacerTest, EvictionCannotHelpIfGpusAreUnhealthy) {
  Inventory inventory = inventory_of("a", {16, 16});
  inventory.gpus[0].unhealthy = "XID 79";
  inventory.gpus[1].unhealthy = "XID 79";
  ledger.upsert_node(node_with("a", inventory));
  ledger.upsert_pod(bound_share("busy", 12, "a", 0));
  ledger.upsert_pod(bound_whole("whole", "a", {1}));
  const NodeId a = ledger.find_node("a").value();
  PodSpec choosy = share_pod("p", 8);
  choosy.annotations["tessera.io/gpu-uuids"] = uuid_of("a", 0);
  for (const PodSpec& pod : {share_pod("p", 8), choosy, whole_pod("p", 1),
                             pod_of("p", {container("x", 2), container("y", 0, 1)})}) {
    EXPECT_EQ(placer.reason(request_of(pod), a), Reason::kUnhealthy);
  }
  // One GPU has recovered. It is enough for a share or for a whole GPU, but not for both.
  inventory.gpus[0].unhealthy.clear();
  ledger.upsert_node(node_with("a", inventory));
  EXPECT_EQ(placer.reason(request_of(share_pod("p", 8)), a), Reason::kNoGpuWithEnoughFree);
  EXPECT_EQ(placer.reason(request_of(whole_pod("p", 1)), a), Reason::kTooFewWholeGpus);
  EXPECT_EQ(placer.reason(request_of(pod_of("p", {container("x", 2), container("y", 0, 1)})), a),
            Reason::kUnhealthy);
}

TEST_F(PlacerTest, EvictionCannotHelpIfTooFewGpusAreLargeEnough) {
  ledger.upsert_node(node_of("a", {80, 16}));
  ledger.upsert_pod(bound_share("busy", 60, "a", 0));
  PodSpec pod = share_pod("p", 80);
  pod.labels["aliyun.com/gpu-count"] = "2";
  EXPECT_EQ(refusal(pod, "a"), "fewer than 2 GPUs are as large as 40GiB");
  EXPECT_FALSE(eviction_may_help(placer.reason(request_of(pod), ledger.find_node("a").value())));
}

// A tenant chooses the words of its requests, so the cache of scores must not grow with them.
TEST(ScoreCacheTest, HasALimitedSizeForAnyRequests) {
  Ledger ledger;
  ledger.upsert_node(node_of("a", {16, 16}));
  ScoreCache cache(ledger);
  Placer placer(ledger);
  for (int i = 0; i < 3'000; ++i) {
    PodSpec pod = share_pod("p", 1 + i % 16);
    pod.annotations[std::string(key::kGpuModel)] = fmt::format("{}-{}", std::string(4'000, 'a'), i);
    const Request request = request_of(pod);
    Query query;
    query.request = &request;
    static_cast<void>(cache.column(query));
    ASSERT_LE(cache.columns(), ScoreCache::kMostColumns);
    ASSERT_LE(cache.bytes(), ScoreCache::kMostBytes);
  }
  EXPECT_EQ(cache.columns(), ScoreCache::kMostColumns);
}

TEST_F(PlacerTest, SaysWhetherEvictionWouldHelp) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_whole("whole", "a", {0}));
  ledger.upsert_pod(bound_share("small", 4, "a", 1));
  ledger.upsert_pod(bound_share("large", 10, "a", 1));
  const NodeId a = ledger.find_node("a").value();
  const auto helps = [&](const PodSpec& pod, const std::vector<std::string_view>& uids) {
    SearchBudget budget;
    return placer.fits_without(request_of(pod), a, uids, budget);
  };
  EXPECT_FALSE(helps(share_pod("p", 12), {}));
  EXPECT_FALSE(helps(share_pod("p", 12), {"uid-small"}));
  EXPECT_TRUE(helps(share_pod("p", 12), {"uid-large"}));
  EXPECT_TRUE(helps(share_pod("p", 12), {"uid-whole", "uid-unknown"}));
  EXPECT_FALSE(helps(whole_pod("p", 2), {"uid-whole", "uid-large"}));
  EXPECT_TRUE(helps(whole_pod("p", 2), {"uid-whole", "uid-large", "uid-small"}));
  EXPECT_EQ(ledger.view(a).free[1], 2U) << "fits_without does not change the ledger";
}

TEST_F(PlacerTest, FitsWithoutCountsEveryPodOnceAndIgnoresUnknownOnes) {
  ledger.upsert_node(node_of("a", {16, 16}));
  ledger.upsert_pod(bound_share("p", 3, "a", 1));
  ledger.upsert_pod(bound_whole("q", "a", {0}));
  ledger.upsert_pod(bound_share("lost", 2, "a", 7));  // the node has no GPU 7
  const std::vector<Problem> problems = ledger.problems();
  const NodeId a = ledger.find_node("a").value();
  const std::vector<std::string_view> all{"uid-p", "uid-q", "uid-q", "uid-lost", "uid-unknown"};
  SearchBudget budget;
  EXPECT_TRUE(placer.fits_without(request_of(whole_pod("n", 2)), a, all, budget));
  EXPECT_FALSE(placer.fits_without(request_of(whole_pod("n", 2)), a, std::span(all).subspan(1), budget));
  EXPECT_EQ(ledger.view(a).whole_free, 0U) << "the ledger did not change";
  EXPECT_EQ(ledger.problems(), problems);
}

TEST_F(PlacerTest, FitsWithoutComparesCpuAndMemoryWhenAsked) {
  NodeSpec node = node_of("a", {16});
  node.cpu_milli = 4000;
  node.memory_bytes = 1 << 30;
  ledger.upsert_node(node);
  PodSpec first = bound_share("first", 2, "a", 0);
  first.containers[0].cpu_milli = 3000;
  PodSpec second = bound_share("second", 2, "a", 0);
  second.containers[0].cpu_milli = 3000;  // together more than the node has
  ledger.upsert_pod(first);
  ledger.upsert_pod(second);
  PodSpec pod = share_pod("p", 4);
  pod.containers[0].cpu_milli = 2000;
  const NodeId a = ledger.find_node("a").value();
  const std::vector<std::string_view> both{"uid-first", "uid-second"};
  const auto one = std::span(both).first(1);
  SearchBudget budget;
  EXPECT_TRUE(placer.fits_without(request_of(pod), a, one, budget));
  EXPECT_FALSE(placer.fits_without(request_of(pod), a, one, budget, true)) << "1 CPU would be free";
  EXPECT_TRUE(placer.fits_without(request_of(pod), a, both, budget, true));
}

TEST_F(PlacerTest, FilterAndChoiceAgreeForEveryKindOfRequest) {
  ledger.upsert_node(node_with("a", two_quads("a")));
  ledger.upsert_node(node_of("b", {80, 16, 8}));
  ledger.upsert_node(original_node("c", 30, 2));
  ledger.upsert_pod(bound_share("x", 9, "a", 0));
  ledger.upsert_pod(bound_whole("y", "a", {4, 5}));
  std::vector<PodSpec> pods;
  for (const std::int64_t units : {0, 1, 8, 23, 24, 32, 80, 81}) {
    for (const std::int64_t whole : {0, 1, 2, 4, 6, 8}) {
      for (const bool choosy : {false, true}) {
        PodSpec pod = pod_of("p", {container("a", units, 0), container("b", units / 2, whole)});
        if (choosy) {
          pod.annotations["tessera.io/gpu-model"] = "A100";
        }
        pods.push_back(pod);
        pods.push_back(with(pod, key::kPlacement, "per-container"));
      }
    }
  }
  const std::vector<NodeId> nodes = ledger.nodes_by_name();
  for (const PodSpec& pod : pods) {
    const Request request = request_of(pod);
    std::vector<Reason> reasons(nodes.size());
    std::vector<Score> scores(nodes.size());
    placer.filter(request, nodes, reasons);
    placer.score(request, nodes, scores);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto choice = placer.choose(request, nodes[i]);
      EXPECT_EQ(reasons[i] == Reason::kFits, choice.has_value());
      EXPECT_EQ(scores[i] != kDoesNotFit, choice.has_value());
      if (choice) {
        EXPECT_EQ(scores[i], choice->score);
        EXPECT_TRUE(ledger.reserve(key_of(pod), request, *choice));
      }
    }
  }
}

}  // namespace
}  // namespace tessera::alloc::testing
