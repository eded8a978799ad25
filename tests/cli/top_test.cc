#include "cli/top/top.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <sstream>

#include "base/json_reader.h"
#include "cli/machine/topo.h"
#include "golden.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Outcome top(TopOptions options, const SavedCluster& cluster, const Terminal& terminal = {}) {
  std::ostringstream out;
  std::ostringstream err;
  options.cluster.file = cluster.write();
  const int code = run_top(options, out, err, terminal);
  return {code, out.str(), err.str()};
}

SavedCluster& filled(SavedCluster& cluster) {
  fill_tessera_cluster(cluster);
  cluster.plain_node("cpu-only", {});
  return cluster;
}

TEST(TopNode, CountsSharesAsFractionsOfAGpu) {
  SavedCluster cluster;
  const Outcome all = top({}, filled(cluster));
  EXPECT_EQ(all.code, 0) << all.err;
  expect_golden("top-node.txt", all.out);
  expect_golden("top-node-share.txt", top({.mode = "share"}, cluster).out);
  expect_golden("top-node-details.txt", top({.names = {"gpu-b"}, .details = true}, cluster).out);
}

TEST(TopNode, SupportsTheModesOfArena) {
  SavedCluster cluster;
  EXPECT_THAT(top({.mode = "none"}, filled(cluster)).out, HasSubstr("cpu-only"));
  EXPECT_THAT(top({.mode = "none"}, cluster).out, Not(HasSubstr("gpu-a")));
  EXPECT_THAT(top({}, cluster).out, Not(HasSubstr("cpu-only")));
  const std::string links = top({.names = {"gpu-a"}, .details = true, .mode = "topology"}, cluster).out;
  EXPECT_THAT(links, HasSubstr("NV1"));
  EXPECT_THAT(links, HasSubstr("GB/s"));
}

TEST(TopNode, ShowsNodesWithAnotherUnitInGibibytes) {
  SavedCluster cluster;
  alloc::Inventory fine = inventory_of("c", 1, 16384);
  fine.unit = *alloc::Unit::parse("256MiB");
  cluster.node("gpu-c", fine);
  cluster.pod("ml", "small", "gpu-c",
              {.units = 2, .annotations = {{"tessera.io/allocation", share_record({{"GPU-c-0", 2}})}}});
  EXPECT_THAT(top({}, filled(cluster)).out, HasSubstr("0.5/16.0 GiB"));
}

TEST(TopNode, SortsByFreeAndByUnhealthyGpus) {
  SavedCluster cluster;
  const std::string out = top({.sort_by = "free"}, filled(cluster)).out;
  EXPECT_LT(out.find("gpu-a"), out.find("gpu-b"));
  const std::string by_unhealthy = top({.sort_by = "unhealthy"}, cluster).out;
  EXPECT_LT(by_unhealthy.find("gpu-b"), by_unhealthy.find("gpu-a"));
}

TEST(TopNode, PrintsTheSameFactsAsJsonAndYaml) {
  SavedCluster cluster;
  const auto document = parse_json(top({.output = "json"}, filled(cluster)).out);
  ASSERT_TRUE(document);
  const auto& nodes = document->at("nodes").as_array();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].at("name"), "gpu-a");
  EXPECT_EQ(nodes[0].at("gpus").as_array()[1].at("allocatedUnits"), 13);
  EXPECT_EQ(nodes[1].at("gpus").as_array()[0].at("unhealthy"), "XID 79");
  EXPECT_THAT(top({.output = "yaml"}, cluster).out, HasSubstr("name: gpu-a"));
}

TEST(TopNode, ReportsAnUnknownNode) {
  SavedCluster cluster;
  const Outcome outcome = top({.names = {"gpu-z"}}, filled(cluster));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err, "tessera: node \"gpu-z\" does not exist; did you mean gpu-a?\n");
}

TEST(TopNode, ShowsActualUsageIfKnown) {
  SavedCluster cluster;
  const TopOptions options{.cluster = {.file = filled(cluster).write()}};
  Usage usage;
  usage.gpus["GPU-a-1"] = {.memory_mib = 6144, .duty_percent = 40};
  usage.pod_memory_mib["ml/infer"] = 6144;
  auto read = read_cluster(options.cluster, {});
  ASSERT_TRUE(read);
  const auto view = make_top(options, *read, usage);
  ASSERT_TRUE(view);
  const std::string text = top_nodes_text(options, *view, {});
  EXPECT_THAT(text, HasSubstr("DUTY_CYCLE"));
  EXPECT_THAT(text, HasSubstr("6.0 GiB"));
  EXPECT_THAT(text, HasSubstr("40%"));
}

TEST(Usage, IsReadFromTheAgentsMetrics) {
  Usage usage;
  read_usage(
      "# HELP tessera_gpu_memory_used_bytes Memory that processes use\n"
      "# TYPE tessera_gpu_memory_used_bytes gauge\n"
      "tessera_gpu_memory_used_bytes{gpu=\"0\",uuid=\"GPU-a\"} 2147483648\n"
      "tessera_gpu_utilization_ratio{gpu=\"0\",uuid=\"GPU-a\"} 0.25\n"
      "tessera_container_gpu_memory_used_bytes{namespace=\"ml\",pod=\"p\",container=\"a\",uuid=\"GPU-a\"} "
      "1048576\n"
      "tessera_container_gpu_memory_used_bytes{namespace=\"ml\",pod=\"p\",container=\"b "
      "\\\"x\\\"\",uuid=\"GPU-a\"} 1048576\n"
      "tessera_gpu_memory_used_bytes{gpu=\"1\",uuid=\"GPU-b 7\n"
      "tessera_gpu_memory_used_bytes{gpu=\"1\"\n"
      "tessera_gpu_memory_used_bytes\n"
      "other_metric 3\n",
      usage);
  ASSERT_EQ(usage.gpus.size(), 1U);
  EXPECT_DOUBLE_EQ(usage.gpus.at("GPU-a").memory_mib, 2048);
  EXPECT_DOUBLE_EQ(usage.gpus.at("GPU-a").duty_percent, 25);
  EXPECT_DOUBLE_EQ(usage.pod_memory_mib.at("ml/p"), 2);
}

TEST(TopPod, ShowsTheGpusOfEveryPodAndPendingPods) {
  SavedCluster cluster;
  filled(cluster);
  cluster.pod("web", "unrecorded-1", "gpu-a", {.units = 3});
  cluster.pod("web", "requests-zero", "gpu-a", {.zero_limits = true});
  expect_golden("top-pod.txt", top({.pods = true, .cluster = {.all_namespaces = true}}, cluster).out);
  const Outcome ml = top({.pods = true, .cluster = {.namespace_name = "ml"}}, cluster);
  EXPECT_THAT(ml.out, HasSubstr("train"));
  EXPECT_THAT(ml.out, Not(HasSubstr("split")));
  EXPECT_EQ(top({.pods = true, .cluster = {.all_namespaces = true}, .names = {"other"}}, cluster).code, 1);
}

TEST(TopPod, SuggestsAllNamespacesForAnUnknownPod) {
  SavedCluster cluster;
  const Outcome outcome =
      top({.pods = true, .cluster = {.namespace_name = "web"}, .names = {"train"}}, filled(cluster));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err,
            "tessera: no pod \"train\" in namespace web requests GPUs; use -A for all namespaces\n");
}

TEST(TopoOfANode, ShowsLinksAndFreeGpus) {
  SavedCluster cluster;
  std::ostringstream out;
  std::ostringstream err;
  TopoOptions options{.node = "gpu-a", .cluster = {.file = filled(cluster).write()}, .count = 1};
  EXPECT_EQ(run_topo(options, out, err), 1);
  EXPECT_THAT(err.str(), HasSubstr("1 GPU requested, but only 0 of 4 are free"));
  options.count = 0;
  EXPECT_EQ(run_topo(options, out, err), 0);
  expect_golden("topo-node.txt", out.str());
}

TEST(TopoOfANode, ChoosesByTheClustersPolicyUnlessOneIsGiven) {
  const auto topo = [](const std::string& cluster_policy, const std::string& policy) {
    SavedCluster cluster;
    cluster.node("gpu-a", inventory_of("a", 4, 16384));
    cluster.placer("s-0", {.annotations = {{"tessera.io/policy-whole", cluster_policy}}});
    const TopoOptions options{
        .node = "gpu-a", .cluster = {.file = cluster.write()}, .count = 2, .policy = policy};
    const auto view = make_topo_view(options);
    return view ? view->choice->policy : view.error().text();
  };
  EXPECT_EQ(topo("best_effort", ""), "best_effort");
  EXPECT_EQ(topo("best_effort", "simple"), "simple");
  EXPECT_EQ(topo("", ""), "ring");
  EXPECT_THAT(topo("static", ""), HasSubstr("only the extender has its table"));
  EXPECT_EQ(topo("static", "ring"), "ring");
}

// A node with every state of a GPU, and a pod whose name is markup.
SavedCluster& with_all_states(SavedCluster& cluster) {
  alloc::Inventory inventory = inventory_of("a", 5, 32768);
  inventory.gpus[3].unhealthy = "XID 79 <lost> & gone";
  inventory.gpus[4].unhealthy = "XID 48";
  cluster.node("gpu-a", inventory);
  cluster.pod("ml", "train", "gpu-a", {.whole = 1, .annotations = record(whole_record({"GPU-a-0"}))});
  cluster.pod("ml", "</text><script>alert(1)</script>\x1b[31m\xef\xbf\xbf", "gpu-a",
              {.units = 8, .annotations = record(share_record({{"GPU-a-1", 8}}))});
  cluster.pod("ml", std::string(200, 'x'), "gpu-a",
              {.units = 4, .annotations = record(share_record({{"GPU-a-4", 4}}))});
  cluster.pod("ml", "lost", "gpu-a", {.units = 2, .annotations = record(share_record({{"GPU-gone", 2}}))});
  return cluster;
}

TEST(TopoOfANode, DrawsEveryStateOfAGpuWithItsPods) {
  SavedCluster cluster;
  std::ostringstream out;
  std::ostringstream err;
  const TopoOptions options{
      .node = "gpu-a", .cluster = {.file = with_all_states(cluster).write()}, .count = 1, .output = "svg"};
  ASSERT_EQ(run_topo(options, out, err), 0) << err.str();
  const std::string svg = out.str();
  for (const char* part :
       {"<title>GPU 0: whole</title>", "<title>GPU 1: shared</title>", "<title>GPU 2: chosen</title>",
        "<title>GPU 3: unhealthy</title>", "<title>GPU 4: shared, unhealthy</title>", "whole: ml/train",
        "8/32 GiB", "Tesla V100-SXM2-32GB", "prefers-color-scheme:dark",
        "unhealthy: XID 79 &lt;lost&gt; &amp; gone", "ml/&lt;/text&gt;&lt;script&gt;",
        "pod ml/lost holds GPU"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, Not(HasSubstr("\x1b")));
  EXPECT_THAT(svg, Not(HasSubstr("\xef\xbf\xbf"))) << "U+FFFF is not allowed in XML";
  EXPECT_THAT(svg, Not(HasSubstr(std::string(100, 'x')))) << "long names are shortened";
}

TEST(TopoOfANode, PrintsTheStatesAsJson) {
  SavedCluster cluster;
  std::ostringstream out;
  std::ostringstream err;
  ASSERT_EQ(
      run_topo({.node = "gpu-a", .cluster = {.file = with_all_states(cluster).write()}, .output = "json"},
               out, err),
      0);
  const auto document = parse_json(out.str());
  ASSERT_TRUE(document);
  const auto& gpus = document->at("gpus").as_array();
  ASSERT_EQ(gpus.size(), 5U);
  EXPECT_EQ(gpus[0].at("state"), "whole");
  EXPECT_EQ(gpus[1].at("state"), "shared");
  EXPECT_EQ(gpus[1].at("heldUnits"), 8);
  EXPECT_EQ(gpus[2].at("state"), "free");
  EXPECT_EQ(gpus[4].at("state"), "unhealthy");
  EXPECT_EQ(gpus[4].at("pods").as_array().size(), 1U);
}

TEST(TopoOfANode, ShowsMemoryInTheUnitOfTheGpuNotOfTheCluster) {
  SavedCluster cluster;
  alloc::Inventory fine = inventory_of("c", 1, 16384);
  fine.unit = *alloc::Unit::parse("256MiB");
  cluster.node("gpu-c", fine);
  cluster.pod("ml", "small", "gpu-c", {.units = 2, .annotations = record(share_record({{"GPU-c-0", 2}}))});
  const auto view = make_topo_view({.node = "gpu-c", .cluster = {.file = cluster.write()}});
  ASSERT_TRUE(view);
  EXPECT_EQ(view->uses[0].text(), "512/16384 MiB: ml/small");
}

TEST(TopoOfANode, ReadsTheLinksOfTheOriginalTopologyPlugin) {
  SavedCluster cluster;
  cluster.plain_node(
      "topo",
      {.annotations = {{"GPU_TOPOLOGY", R"({"GPU_NV1_0_1":"Single NVLink","GPU_NV2_0_2":"Two NVLinks",)"
                                        R"("GPU_NV2_1_3":"Two NVLinks","GPU_SYS_2_3":"Cross CPU socket"})"},
                       {"NODE_TYPE", "ecs.gn6v-c10g1.20xlarge"}},
       .whole = 4});
  cluster.pod("ml", "group", "topo", {.whole = 1, .annotations = {{"ALIYUN_COM_GPU_GROUP", "1"}}});
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(run_topo({.node = "topo", .cluster = {.file = cluster.write()}, .count = 2}, out, err), 0)
      << err.str();
  expect_golden("topo-original-node.txt", out.str());
}

TEST(TopoOfANode, ExplainsWhatToDoWithoutAnInventory) {
  SavedCluster cluster;
  cluster.plain_node("old", {.units = 32, .gpus = 2});
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(run_topo({.node = "old", .cluster = {.file = cluster.write()}}, out, err), 1);
  EXPECT_THAT(err.str(), HasSubstr("node old has neither an inventory"));
  EXPECT_EQ(run_topo({.node = "gone", .cluster = {.file = cluster.write()}}, out, err), 1);
  EXPECT_THAT(err.str(), HasSubstr("node \"gone\" does not exist"));
}

}  // namespace
}  // namespace tessera::cli
