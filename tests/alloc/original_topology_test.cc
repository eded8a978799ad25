// Nodes of the original topology plugins: their links are read, and whole GPUs are placed there.
#include "alloc/original_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "alloc/explain.h"
#include "alloc/original_record.h"
#include "base/json_reader.h"
#include "cluster.h"
#include "topology/static_sets.h"

namespace tessera::alloc::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using topology::Link;
using topology::PciePath;

// The annotation of a machine with four V100, as the plugin writes it: pairs 0-3 and 1-2 have two
// NVLinks, 2-3 has none.
constexpr const char* kFourGpus =
    R"({"GPU_NV1_0_1":"Single NVLink","GPU_NV1_0_2":"Single NVLink","GPU_NV2_0_3":"Two NVLinks",)"
    R"("GPU_NV2_1_2":"Two NVLinks","GPU_PHB_1_3":"Host PCI bridge","GPU_SYS_2_3":"Cross CPU socket"})";
// The same links in the first design, with the diagonal and both directions of the first row.
constexpr const char* kFourGpusGsoc =
    "0_0=0\n0_1=7\n0_2=7\n0_3=8\n1_0=7\n1_1=0\n1_2=8\n1_3=3\n2_0=7\n2_3=1\n3_0=8\n";

NodeSpec topology_node(const std::string& name, const std::string& links, std::int64_t gpus) {
  NodeSpec node;
  node.name = name;
  node.whole_gpus = gpus;
  node.original.gpu_topology = links;
  return node;
}

std::string error_of(const OriginalNode& node, unsigned gpus = 4) {
  const auto read = original_topology(node, gpus);
  return read ? "" : read.error().text();
}

TEST(OriginalTopology, ReadsBothDesigns) {
  for (const OriginalNode& node :
       {OriginalNode{.gpu_topology = kFourGpus}, OriginalNode{.gsoc_links = kFourGpusGsoc}}) {
    const auto read = original_topology(node, 4);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(read->link(0, 1), (Link{.nvlinks = 1, .generation = 2}));
    EXPECT_EQ(read->link(0, 3), (Link{.nvlinks = 2, .generation = 2}));
    EXPECT_EQ(read->link(1, 2), (Link{.nvlinks = 2, .generation = 2}));
    EXPECT_EQ(read->link(1, 3), Link{.path = PciePath::kPhb});
    EXPECT_EQ(read->link(2, 3), Link{.path = PciePath::kSys});
  }
  // The later design wins, because it can express more NVLinks.
  EXPECT_EQ(
      original_topology({.gpu_topology = R"({"GPU_NV12_0_1":"12 NVLinks"})", .gsoc_links = "0_1=12\n"}, 2)
          ->link(0, 1)
          .nvlinks,
      12);
}

TEST(OriginalTopology, ReadsEveryLinkClass) {
  const std::pair<const char*, Link> classes[] = {{"SYS", {.path = PciePath::kSys}},
                                                  {"NODE", {.path = PciePath::kNode}},
                                                  {"PHB", {.path = PciePath::kPhb}},
                                                  {"PXB", {.path = PciePath::kPxb}},
                                                  {"PIX", {.path = PciePath::kPix}},
                                                  {"PSB", {.path = PciePath::kPsb}},
                                                  {"N-A", {}},
                                                  {"NV3", {.nvlinks = 3, .generation = 2}}};
  for (const auto& [name, link] : classes) {
    const auto read = original_topology({.gpu_topology = fmt::format(R"({{"GPU_{}_0_1":"x"}})", name)}, 2);
    ASSERT_TRUE(read) << name;
    EXPECT_EQ(read->link(0, 1), link) << name;
  }
  for (int number = 0; number <= 12; ++number) {
    const auto read = original_topology({.gsoc_links = fmt::format("1_0={}\n", number)}, 2);
    ASSERT_TRUE(read) << number;
    EXPECT_EQ(static_cast<int>(read->link(0, 1).path), number <= 6 ? number : 0);
    EXPECT_EQ(read->link(0, 1).nvlinks, number <= 6 ? 0 : number - 6);
  }
}

// The plugin keeps only one pair of each row. The other links are unknown, and the node is usable.
TEST(OriginalTopology, ToleratesMissingPairs) {
  const auto read = original_topology({.gsoc_links = "0_3=8\n1_3=3\n2_3=1\n3_2=1\n"}, 4);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->link(0, 3).nvlinks, 2);
  EXPECT_EQ(read->link(0, 1), Link{});
  EXPECT_TRUE(original_topology({.gpu_topology = "{}"}, 1));
}

TEST(OriginalTopology, ReadsWhatTheAgentWrites) {
  Inventory inventory = inventory_of("a", {16, 16, 16});
  inventory.topology.set_link(0, 1, {.nvlinks = 2, .generation = 2});
  inventory.topology.set_link(1, 2, {.path = PciePath::kNode});
  const Annotations written = inventory.original_annotations();
  EXPECT_EQ(original_topology({.gpu_topology = written.at("GPU_TOPOLOGY")}, 3).value(), inventory.topology);
  EXPECT_EQ(original_topology(
                {.gsoc_links = "0_1=" + written.at("GSOC_DEV_0_1") + "\n1_2=" + written.at("GSOC_DEV_1_2") +
                               "\n0_2=" + written.at("GSOC_DEV_0_2") + "\n"},
                3)
                .value(),
            inventory.topology);
}

TEST(OriginalTopology, RejectsWhatItCannotUnderstand) {
  for (const char* name :
       {"GPU_NV1_0", "GPU_NV1_0_1_2", "XPU_NV1_0_1", "GPU_NV0_0_1", "GPU_NV99_0_1", "GPU_NV_0_1",
        "GPU_nv1_0_1", "GPU_NV1_a_1", "GPU_NV1_-1_1", "GPU__0_1", "", "GPU_NV1_0_+1"}) {
    EXPECT_NE(error_of({.gpu_topology = fmt::format(R"({{"{}":"x"}})", name)}), "") << name;
  }
  EXPECT_EQ(
      error_of({.gpu_topology = R"({"GPU_NV1_0_4":"Single NVLink"})"}),
      "annotation GPU_TOPOLOGY: \"GPU_NV1_0_4\" names GPU 4, but the node's capacity is 4 GPUs; restart its "
      "device plugin, or remove the annotation");
  EXPECT_THAT(error_of({.gpu_topology = R"({"GPU_NV1_0_1":1})"}), HasSubstr("GPU_NV1_0_1"));
  EXPECT_THAT(error_of({.gpu_topology = R"({"GPU_NV1_0_1":"a","GPU_NV2_1_0":"b"})"}),
              HasSubstr("\"GPU_NV2_1_0\" contradicts another link between GPU 0 and GPU 1"));
  EXPECT_NE(error_of({.gpu_topology = "[]"}), "");
  EXPECT_NE(error_of({.gpu_topology = "NV1"}), "");
  EXPECT_NE(error_of({.gpu_topology = std::string(OriginalNode::kMaxBytes + 1, ' ')}), "");

  for (const char* line : {"0_1=13", "0_1=-1", "0_1=x", "0_1=", "0_1", "01=7", "0_1_2=7", "_=7", "0_64=7"}) {
    EXPECT_NE(error_of({.gsoc_links = line}), "") << line;
  }
  EXPECT_EQ(error_of({.gsoc_links = "0_1=seven\n"}),
            "annotation GSOC_DEV_\"0_1\": \"seven\" is not a link between two GPUs");
  EXPECT_THAT(error_of({.gsoc_links = "0_1=7\n1_0=8\n"}), HasSubstr("contradicts"));
  EXPECT_THAT(error_of({.gsoc_links = std::string(OriginalNode::kMaxBytes + 1, '\n')}), HasSubstr("bytes"));
}

class TopologyNode : public ::testing::Test {
 protected:
  NodeId id(const std::string& node) { return ledger.find_node(node).value(); }
  Reason reason(const PodSpec& pod, const std::string& node) {
    return placer.reason(request_of(pod), id(node));
  }
  static PodSpec recorded(const std::string& name, const std::string& node, const std::string& group,
                          std::int64_t gpus) {
    PodSpec pod = whole_pod(name, gpus);
    pod.node_name = node;
    pod.phase = PodPhase::kRunning;
    pod.annotations["ALIYUN_COM_GPU_GROUP"] = group;
    pod.annotations["ALIYUN_COM_GPU_ASSIGNED"] = "true";
    return pod;
  }

  Ledger ledger;
  Placer placer{ledger};
};

TEST_F(TopologyNode, PlacesWholeGpusByTheirLinks) {
  ledger.upsert_node(topology_node("topo", kFourGpus, 4));
  const auto pair = placer.choose_best(request_of(whole_pod("p", 2)));
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->whole_gpus, 0b1001U) << "0-3 has two NVLinks, as has 1-2, which is left";
  ledger.upsert_pod(recorded("x", "topo", "0,3", 2));
  EXPECT_EQ(placer.choose_best(request_of(whole_pod("p", 2)))->whole_gpus, 0b0110U);
  EXPECT_EQ(reason(whole_pod("p", 3), "topo"), Reason::kTooFewWholeGpus);
  EXPECT_EQ(explain(ledger, placer, request_of(whole_pod("p", 3)), id("topo")).blockers.size(), 1U);
  EXPECT_THAT(ledger.problems(), IsEmpty());
}

// The plugin reads the indices from GROUP (first design: IDX), and serves pods with ASSIGNED
// "false", the oldest ASSUME_TIME first. There is no agent that would read tessera.io/allocation.
TEST_F(TopologyNode, WritesTheAnnotationsThatItsPluginReads) {
  ledger.upsert_node(topology_node("topo", kFourGpus, 4));
  const PodSpec pod = whole_pod("p", 2);
  const Request request = request_of(pod);
  const auto choice = placer.choose(request, id("topo"));
  ASSERT_TRUE(choice);
  const auto written = binding_annotations(request.gpus, choice->record, ledger.gpu_names(id("topo")),
                                           {.assume_time_ns = 1'563'000'000'000'000'001,
                                            .has_agent = !ledger.states().original(id("topo")).any()});
  ASSERT_TRUE(written) << written.error().text();
  EXPECT_EQ(*written, (Annotations{{"ALIYUN_COM_GPU_GROUP", "0,3"},
                                   {"ALIYUN_COM_GPU_IDX", "0,3"},
                                   {"ALIYUN_COM_GPU_COUNT_POD", "2"},
                                   {"ALIYUN_COM_GPU_ASSIGNED", "false"},
                                   {"ALIYUN_COM_GPU_ASSUME_TIME", "1563000000000000001"}}));
  PodSpec bound = pod;
  bound.node_name = "topo";
  bound.annotations.insert(written->begin(), written->end());
  ledger.upsert_pod(bound);
  EXPECT_EQ(ledger.view(id("topo")).whole_free, 0b0110U);
}

TEST_F(TopologyNode, ServesOnlyWholeGpusOfOneContainer) {
  ledger.upsert_node(topology_node("topo", kFourGpus, 4));
  EXPECT_EQ(reason(whole_pod("p", 4), "topo"), Reason::kFits);
  EXPECT_EQ(reason(share_pod("p", 3), "topo"), Reason::kOriginalTopologyPlugin);
  EXPECT_EQ(reason(pod_of("p", {container("a", 0, 1), container("b", 0, 1)}), "topo"),
            Reason::kOriginalTopologyPlugin);
  EXPECT_EQ(reason(pod_of("p", {container("a", 0, 1, ContainerKind::kInit)}), "topo"),
            Reason::kOriginalTopologyPlugin);
  EXPECT_EQ(reason(pod_of("p", {container("a", 3), container("b", 0, 1)}), "topo"),
            Reason::kOriginalTopologyPlugin);
  EXPECT_EQ(reason(pod_of("p", {container("a", 0, 1), container("b", 0)}), "topo"), Reason::kFits)
      << "the second container uses no GPU";

  // Both original plugins on one node.
  NodeSpec both = topology_node("both", kFourGpus, 4);
  both.gpu_count = 4;
  both.gpu_memory_units = 64;
  ledger.upsert_node(both);
  EXPECT_EQ(reason(whole_pod("p", 4), "both"), Reason::kFits);
  EXPECT_EQ(reason(share_pod("p", 16), "both"), Reason::kFits);
  EXPECT_EQ(reason(pod_of("p", {container("a", 3), container("b", 0, 1)}), "both"), Reason::kOriginalPlugin);

  // The plugin of gpushare alone.
  ledger.upsert_node(original_node("share", 64, 4));
  EXPECT_EQ(reason(whole_pod("p", 1), "share"), Reason::kOriginalPlugin);
}

// Without the annotations, another plugin serves the resource. It does not read our records.
TEST_F(TopologyNode, NeedsTheLinks) {
  ledger.upsert_node(topology_node("other", "", 4));
  EXPECT_EQ(reason(whole_pod("p", 1), "other"), Reason::kNoGpus);
  ledger.upsert_node(topology_node("other", "{}", 1));
  EXPECT_EQ(reason(whole_pod("p", 1), "other"), Reason::kFits) << "one GPU has no pairs";
  NodeSpec counted = topology_node("counted", "", 0);
  counted.gpu_count = 4;
  counted.original.gsoc_links = kFourGpusGsoc;
  ledger.upsert_node(counted);
  EXPECT_EQ(reason(whole_pod("p", 4), "counted"), Reason::kFits) << "the first design serves gpu-count";
}

TEST_F(TopologyNode, IsFencedWhileItsLinksAreInvalid) {
  ledger.upsert_node(topology_node("topo", R"({"GPU_NV1_0_9":"Single NVLink"})", 4));
  EXPECT_EQ(reason(whole_pod("p", 1), "topo"), Reason::kInventoryUnreadable);
  ASSERT_EQ(ledger.problem_count(ProblemKind::kUnreadableInventory), 1U);
  EXPECT_THAT(ledger.problems().front().text, HasSubstr("GPU_TOPOLOGY: \"GPU_NV1_0_9\" names GPU 9"));
  ledger.upsert_node(topology_node("topo", kFourGpus, 4));
  EXPECT_EQ(reason(whole_pod("p", 1), "topo"), Reason::kFits);
  EXPECT_EQ(ledger.problem_count(ProblemKind::kUnreadableInventory), 0U);
}

TEST_F(TopologyNode, SkipsUnhealthyGpus) {
  NodeSpec node = topology_node("topo", kFourGpus, 4);
  node.unhealthy_gpus = "1";
  ledger.upsert_node(node);
  EXPECT_EQ(placer.choose_best(request_of(whole_pod("p", 2)))->whole_gpus, 0b1001U);
}

TEST_F(TopologyNode, IsFoundInStaticTablesByItsType) {
  const auto document = parse_json(R"({"ecs.sccgn6.24xlarge":{"2":[[0,2]]}})").value();
  const auto sets = topology::StaticSets::from_json(JsonReader(document, "sets")).value();
  Placer with_tables(ledger, {.whole_policy = Policy::kStatic,
                              .static_sets = std::make_shared<const topology::StaticSets>(sets)});
  NodeSpec node = topology_node("topo", kFourGpus, 4);
  node.original.type = "ecs.sccgn6.24xlarge";
  ledger.upsert_node(node);
  EXPECT_EQ(with_tables.choose_best(request_of(whole_pod("p", 2)))->whole_gpus, 0b0101U);
}

// An inventory replaces the annotations, and its loss is noticed: the pod's GPUs have UUIDs.
TEST_F(TopologyNode, IsFencedIfItHadAnInventory) {
  ledger.upsert_node(node_of("topo", {16, 16, 16, 16}));
  ledger.upsert_pod(bound_whole("x", "topo", {0}));
  ledger.upsert_node(topology_node("topo", kFourGpus, 4));
  EXPECT_EQ(reason(whole_pod("p", 1), "topo"), Reason::kInventoryUnreadable);
}

}  // namespace
}  // namespace tessera::alloc::testing
