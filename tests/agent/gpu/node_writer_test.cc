#include "agent/gpu/node_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "../devices/test_cluster.h"
#include "gpu_node.h"

namespace tessera::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

constexpr const char* kNode = "/api/v1/nodes/gpu-a";

TEST(NodeLabels, AreThoseOfFeatureDiscoveryAndOfAlibabaClusters) {
  const auto labels = node_labels(v100s(2), {.compute = {"7.0", "7.0"}, .cuda = "12.4"});
  const alloc::Annotations expected{{"aliyun.accelerator/nvidia_count", "2"},
                                    {"aliyun.accelerator/nvidia_mem", "32768MiB"},
                                    {"aliyun.accelerator/nvidia_name", "Tesla-V100-SXM2-32GB"},
                                    {"nvidia.com/cuda.driver-version.full", "550.54.15"},
                                    {"nvidia.com/cuda.driver-version.major", "550"},
                                    {"nvidia.com/cuda.driver-version.minor", "54"},
                                    {"nvidia.com/cuda.driver-version.revision", "15"},
                                    {"nvidia.com/cuda.driver.major", "550"},
                                    {"nvidia.com/cuda.driver.minor", "54"},
                                    {"nvidia.com/cuda.driver.rev", "15"},
                                    {"nvidia.com/cuda.runtime-version.full", "12.4"},
                                    {"nvidia.com/cuda.runtime-version.major", "12"},
                                    {"nvidia.com/cuda.runtime-version.minor", "4"},
                                    {"nvidia.com/cuda.runtime.major", "12"},
                                    {"nvidia.com/cuda.runtime.minor", "4"},
                                    {"nvidia.com/gpu.compute.major", "7"},
                                    {"nvidia.com/gpu.compute.minor", "0"},
                                    {"nvidia.com/gpu.count", "2"},
                                    {"nvidia.com/gpu.family", "volta"},
                                    {"nvidia.com/gpu.machine", "DGX-1"},
                                    {"nvidia.com/gpu.memory", "32768"},
                                    {"nvidia.com/gpu.product", "Tesla-V100-SXM2-32GB"},
                                    {"tessera.io/gpu.nvlink", "NV2"},
                                    {"tessera.io/gpu.nvswitch", "false"}};
  EXPECT_EQ(labels, expected);
}

TEST(NodeLabels, NameTheMostFrequentModelOfAMixedNode) {
  alloc::Inventory inventory = v100s(3);
  inventory.gpus[0].model = "NVIDIA T4";
  inventory.gpus[0].memory_mib = 15360;
  const auto labels = node_labels(inventory, {});
  EXPECT_THAT(labels, Contains(Pair("nvidia.com/gpu.product", "Tesla-V100-SXM2-32GB")));
  EXPECT_THAT(labels, Contains(Pair("nvidia.com/gpu.memory", "32768")));
  EXPECT_THAT(labels, Contains(Pair("nvidia.com/gpu.count", "3")));
}

TEST(NodeLabels, OmitUnknownValuesAndNodesWithoutGpus) {
  alloc::Inventory inventory = v100s(1);
  inventory.driver.clear();
  const auto labels = node_labels(inventory, {});
  EXPECT_THAT(labels, Not(Contains(Key("nvidia.com/cuda.driver-version.full"))));
  EXPECT_THAT(labels, Not(Contains(Key("nvidia.com/gpu.family"))));
  EXPECT_THAT(labels, Contains(Pair("tessera.io/gpu.nvlink", "none")));
  EXPECT_TRUE(node_labels(alloc::Inventory{}, {}).empty());
}

TEST(NodeLabels, AreValidWhateverTheDriverReports) {
  EXPECT_EQ(label_value("NVIDIA  GeForce RTX 3090 (Ti)"), "NVIDIA-GeForce-RTX-3090-Ti");
  EXPECT_EQ(label_value(" _-x-_ "), "x");
  EXPECT_EQ(label_value("\xc3\xa9\n"), "");
  EXPECT_EQ(label_value(std::string(80, 'a')).size(), 63U);
}

TEST(NodeMetadata, OmitsLegacyAnnotationsOfLargeMachines) {
  EXPECT_TRUE(node_metadata(v100s(16), {}, {})->annotations.contains("GPU_TOPOLOGY"));
  const auto large = node_metadata(v100s(32), {}, {});
  ASSERT_TRUE(large);
  EXPECT_FALSE(large->annotations.contains("GPU_TOPOLOGY"));
  EXPECT_TRUE(large->annotations.contains("tessera.io/inventory"));
}

class NodeWriterTest : public ::testing::Test {
 protected:
  NodeWriterTest() {
    cluster_.put(kNode, R"({"metadata":{"name":"gpu-a","labels":{"gpushare":"true"},
                                        "annotations":{"volumes.kubernetes.io/x":"true"}}})");
  }

  void publish(const alloc::Inventory& inventory) { writer_.publish(inventory, {}); }
  void settle() {
    cluster_.run_until([&] { return writer_.state().settled; });
  }
  std::string annotation(std::string_view name) { return cluster_.text(kNode, "annotations", name); }
  std::string label(std::string_view name) { return cluster_.text(kNode, "labels", name); }

  TestCluster cluster_;
  kube::Client client_ = cluster_.client();
  const NodeWriterOptions options_{.recheck_every = 30ms, .backoff = {.first = 1ms, .cap = 5ms}};
  NodeWriter writer_{client_, "gpu-a", options_};
};

TEST_F(NodeWriterTest, WritesInventoryLegacyAnnotationsAndLabelsInOnePatch) {
  publish(v100s(2));
  settle();
  EXPECT_EQ(cluster_.writes(), 1U);
  EXPECT_EQ(alloc::Inventory::parse(annotation("tessera.io/inventory")).value(), v100s(2));
  EXPECT_EQ(annotation("GSOC_DEV_0_1"), "8");
  EXPECT_EQ(annotation("GPU_TOPOLOGY"), R"({"GPU_NV2_0_1":"Two NVLinks"})");
  EXPECT_EQ(label("nvidia.com/gpu.count"), "2");
  EXPECT_EQ(label("gpushare"), "true");
  EXPECT_EQ(annotation("volumes.kubernetes.io/x"), "true");
}

TEST_F(NodeWriterTest, WritesNothingWhileNothingChanges) {
  publish(v100s(2));
  settle();
  publish(v100s(2));
  const std::size_t looked = cluster_.count("GET");
  cluster_.run_until([&] { return cluster_.count("GET") >= looked + 3; });
  EXPECT_EQ(cluster_.writes(), 1U);
}

TEST_F(NodeWriterTest, WritesNothingAfterARestartIfTheNodeIsUpToDate) {
  publish(v100s(2));
  settle();
  NodeWriter next(client_, "gpu-a", options_);
  next.publish(v100s(2), {});
  cluster_.run_until([&] { return next.state().settled; });
  EXPECT_EQ(cluster_.writes(), 1U);
}

TEST_F(NodeWriterTest, RemovesWhatAnUnpluggedGpuLeft) {
  publish(v100s(3));
  settle();
  publish(v100s(2));
  settle();
  EXPECT_EQ(annotation("GSOC_DEV_0_1"), "8");
  EXPECT_EQ(annotation("GSOC_DEV_0_2"), "-");
  EXPECT_EQ(label("nvidia.com/gpu.count"), "2");
  publish(alloc::Inventory{});
  settle();
  EXPECT_EQ(annotation("GSOC_DEV_0_1"), "-");
  EXPECT_EQ(label("nvidia.com/gpu.count"), "-");
  EXPECT_EQ(annotation("tessera.io/labels"), "-");
  EXPECT_EQ(label("gpushare"), "true");
}

TEST_F(NodeWriterTest, RemovesAfterARestartWhatTheEarlierProcessWrote) {
  publish(v100s(3));
  settle();
  NodeWriter next(client_, "gpu-a", {.metadata = {.labels = false, .original_annotations = false}});
  next.publish(v100s(3), {});
  cluster_.run_until([&] { return next.state().settled; });
  EXPECT_EQ(label("nvidia.com/gpu.count"), "-");
  EXPECT_EQ(annotation("GPU_TOPOLOGY"), "-");
  EXPECT_EQ(annotation("GSOC_DEV_1_2"), "-");
}

TEST_F(NodeWriterTest, LeavesLabelsOfOthersAlone) {
  cluster_.change(kNode,
                  R"({"metadata":{"labels":{"nvidia.com/gpu.product":"Tesla-V100-SXM2-32GB-SHARED"}}})");
  publish(v100s(2));
  settle();
  EXPECT_EQ(label("nvidia.com/gpu.product"), "Tesla-V100-SXM2-32GB-SHARED");
  EXPECT_THAT(annotation("tessera.io/labels"), Not(HasSubstr("gpu.product")));
  publish(alloc::Inventory{});
  settle();
  EXPECT_EQ(label("nvidia.com/gpu.product"), "Tesla-V100-SXM2-32GB-SHARED");
}

TEST_F(NodeWriterTest, GivesUpALabelThatAnotherClientTakesOver) {
  publish(v100s(2));
  settle();
  cluster_.change(kNode, R"({"metadata":{"labels":{"nvidia.com/gpu.product":"theirs"}}})");
  cluster_.run_until(
      [&] { return annotation("tessera.io/labels").find("gpu.product") == std::string::npos; });
  EXPECT_EQ(label("nvidia.com/gpu.product"), "theirs");
  EXPECT_EQ(label("nvidia.com/gpu.count"), "2");
}

TEST_F(NodeWriterTest, RestoresWhatAnotherClientDeleted) {
  publish(v100s(2));
  settle();
  cluster_.change(
      kNode,
      R"({"metadata":{"annotations":{"tessera.io/inventory":null},"labels":{"nvidia.com/gpu.count":null}}})");
  cluster_.run_until([&] { return cluster_.writes() == 2; });
  settle();
  EXPECT_EQ(alloc::Inventory::parse(annotation("tessera.io/inventory")).value(), v100s(2));
  EXPECT_EQ(label("nvidia.com/gpu.count"), "2");
}

TEST_F(NodeWriterTest, ReadsAgainWhenTheNodeChangedBetweenReadAndWrite) {
  bool raced = false;
  cluster_.set_intercept([&](const TestCluster::Seen& request) -> std::optional<http::Response> {
    if (request.method == "PATCH" && !std::exchange(raced, true)) {
      cluster_.change(kNode, R"({"metadata":{"labels":{"nvidia.com/gpu.count":"7"}}})");
    }
    return std::nullopt;
  });
  publish(v100s(2));
  settle();
  EXPECT_EQ(label("nvidia.com/gpu.count"), "7");  // came first, so it is theirs
  EXPECT_EQ(label("nvidia.com/gpu.memory"), "32768");
  EXPECT_EQ(writer_.state().races, 1U);
}

TEST_F(NodeWriterTest, KeepsItsLabelsWhenAnUpdateLosesARace) {
  publish(v100s(2));
  settle();
  alloc::Inventory updated = v100s(2);
  updated.driver = "560.1.2";
  bool raced = false;
  cluster_.set_intercept([&](const TestCluster::Seen& request) -> std::optional<http::Response> {
    if (request.method == "PATCH" && !std::exchange(raced, true)) {
      return TestCluster::refusal(409, "Conflict");
    }
    return std::nullopt;
  });
  publish(updated);
  settle();
  EXPECT_EQ(label("nvidia.com/cuda.driver-version.full"), "560.1.2");
}

TEST_F(NodeWriterTest, RetriesUntilTheApiServerIsBackAndReportsWhy) {
  bool away = true;
  cluster_.set_intercept([&](const TestCluster::Seen&) -> std::optional<http::Response> {
    return away ? std::optional(TestCluster::refusal(403, "Forbidden")) : std::nullopt;
  });
  publish(v100s(2));
  cluster_.run_until([&] { return writer_.state().failures >= 3; });
  EXPECT_THAT(writer_.state().problem, AllOf(HasSubstr("inventory of node gpu-a"), HasSubstr("refused by the test")));
  EXPECT_FALSE(writer_.state().settled);
  away = false;
  settle();
  EXPECT_EQ(label("nvidia.com/gpu.count"), "2");
  EXPECT_EQ(writer_.state().problem, "");
}

TEST_F(NodeWriterTest, WritesTheLatestOfManyChanges) {
  for (unsigned gpus = 1; gpus <= 8; ++gpus) {
    publish(v100s(gpus));
  }
  settle();
  EXPECT_EQ(label("nvidia.com/gpu.count"), "8");
  EXPECT_LE(cluster_.writes(), 2U);
}

TEST_F(NodeWriterTest, ReportsAMissingNodeInsteadOfCreatingOne) {
  cluster_.remove(kNode);
  publish(v100s(1));
  cluster_.run_until([&] { return !writer_.state().problem.empty(); });
  EXPECT_THAT(writer_.state().problem, HasSubstr("--node-name"));
  EXPECT_EQ(cluster_.writes(), 0U);
}

}  // namespace
}  // namespace tessera::agent
