#include "cli/inspect/inspect.h"

#include <gtest/gtest.h>

#include <csignal>
#include <sstream>

#include "base/json_reader.h"
#include "cli/cluster/cluster_watch.h"
#include "golden.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

Outcome inspect(InspectOptions options, const SavedCluster& cluster, const Terminal& terminal = {}) {
  std::ostringstream out;
  std::ostringstream err;
  options.cluster.file = cluster.write();
  const int code = run_inspect(options, out, err, terminal);
  return {code, out.str(), err.str()};
}

TEST(Inspect, ReadsTesserasRecordsAndShowsTheSizeOfEveryGpu) {
  SavedCluster cluster;
  fill_tessera_cluster(cluster);
  const Outcome summary = inspect({}, cluster);
  EXPECT_EQ(summary.code, 0);
  EXPECT_EQ(summary.err, "");
  expect_golden("inspect-shares-summary.txt", summary.out);
  expect_golden("inspect-shares-details.txt", inspect({.details = true}, cluster).out);
}

TEST(Inspect, WideOutputHasOneLinePerGpu) {
  SavedCluster cluster;
  fill_tessera_cluster(cluster);
  expect_golden("inspect-shares-wide.txt", inspect({.output = "wide"}, cluster).out);
  const Terminal screen{.is_terminal = true, .colours = true, .bars = true, .rows = 24};
  expect_golden("inspect-shares-wide-terminal.txt", inspect({.output = "wide"}, cluster, screen).out);
  expect_golden("inspect-gpus-wide.txt",
                inspect({.kind = InspectKind::kGpus, .output = "wide"}, cluster).out);
}

TEST(Inspect, ShowsTheShareOfAPodThatAlsoHoldsAWholeGpuAsAShare) {
  SavedCluster cluster;
  cluster.node("gpu-a", inventory_of("a", 2, 16384));
  cluster.pod(
      "ml", "both", "gpu-a",
      {.units = 4,
       .whole = 1,
       .annotations = {
           {"tessera.io/allocation",
            R"({"v":1,"containers":{"main":[{"gpu":"GPU-a-0","whole":true},{"gpu":"GPU-a-1","mem":4}]}})"}}});
  const Outcome wide = inspect({.output = "wide"}, cluster);
  EXPECT_TRUE(has(wide.out, "16/16 GiB        100%  ok      ml/both (whole)")) << wide.out;
  EXPECT_TRUE(has(wide.out, "4/16 GiB         25%   ok      ml/both (4)")) << wide.out;
}

TEST(Inspect, PrintsTheSameFactsAsJsonAndYaml) {
  SavedCluster cluster;
  fill_tessera_cluster(cluster);
  expect_golden("inspect-shares.json", inspect({.output = "json"}, cluster).out);
  expect_golden("inspect-gpus.yaml", inspect({.kind = InspectKind::kGpus, .output = "yaml"}, cluster).out);
  EXPECT_TRUE(parse_json(inspect({.kind = InspectKind::kGpus, .output = "json"}, cluster).out));
}

TEST(Inspect, ShowsLinksInTheLayoutOfTheOriginalTopologyPlugin) {
  SavedCluster cluster;
  fill_tessera_cluster(cluster);
  expect_golden("inspect-gpus-summary.txt", inspect({.kind = InspectKind::kGpus}, cluster).out);
  expect_golden("inspect-gpus-details.txt",
                inspect({.kind = InspectKind::kGpus, .details = true}, cluster).out);
}

TEST(Inspect, ReadsNodesOfTheOriginalTopologyPlugin) {
  SavedCluster cluster;
  cluster.plain_node("topo", {.annotations = {{"GPU_TOPOLOGY", R"({"GPU_NV1_0_1":"Single NVLink"})"},
                                              {"NODE_TYPE", "ecs.gn5-c8g1.14xlarge"}},
                              .whole = 3});
  cluster.pod(
      "ml", "group", "topo",
      {.whole = 2, .annotations = {{"ALIYUN_COM_GPU_GROUP", "0,2"}, {"ALIYUN_COM_GPU_ASSIGNED", "true"}}});
  const Outcome details = inspect({.kind = InspectKind::kGpus, .details = true}, cluster);
  EXPECT_TRUE(has(details.out,
                  "node name: topo\nall gpu: 3\nused gpu: 2\nnode type: ecs.gn5-c8g1.14xlarge\n"
                  "gpu topolocy:\n"
                  "      GPU0 GPU1 GPU2\n"
                  "GPU0     X  NV1    -\n"
                  "GPU1   NV1    X    -\n"
                  "GPU2     -    -    X\n"))
      << details.out;
}

TEST(Inspect, ReadsNodesOfTheFirstTopologyPlugin) {
  SavedCluster cluster;
  cluster.plain_node("topo", {.gpus = 2, .annotations = {{"GSOC_DEV_0_1", "8"}, {"GSOC_DEV_1_0", "8"}}});
  EXPECT_TRUE(has(inspect({.kind = InspectKind::kGpus, .details = true}, cluster).out,
                  "      GPU0 GPU1\nGPU0     X  NV2\nGPU1   NV2    X\n"));
}

TEST(Inspect, ReportsInvalidLinksOfTheOriginalTopologyPlugin) {
  SavedCluster cluster;
  cluster.plain_node("topo", {.annotations = {{"GPU_TOPOLOGY", R"({"GPU_BAD":"x"})"}}, .whole = 3});
  EXPECT_TRUE(has(inspect({.kind = InspectKind::kGpus, .details = true}, cluster).err,
                  "node topo: annotation GPU_TOPOLOGY: \"GPU_BAD\" is not a link between two GPUs"));
}

TEST(Inspect, AlignsTheMatrixOfMoreThanTenGpus) {
  SavedCluster cluster;
  cluster.node("dgx2", inventory_of("d", 12, 32768));
  const Outcome details = inspect({.kind = InspectKind::kGpus, .details = true}, cluster);
  EXPECT_TRUE(has(details.out, "       GPU0 GPU1")) << details.out;
  EXPECT_TRUE(has(details.out, "GPU11   NV1  NV1")) << details.out;
}

TEST(Inspect, PrintsOnlyHeaderAndTotalsWithoutGpus) {
  SavedCluster cluster;
  cluster.plain_node("cpu-1", {});
  EXPECT_EQ(inspect({}, cluster).out,
            "NAME  IPADDRESS  GPU Memory()\n\nAllocated/Total GPU Memory In Cluster:\n0/0 (0%)  \n");
  EXPECT_EQ(inspect({.details = true}, cluster).out,
            "\n\nAllocated/Total GPU Memory In Cluster:  0/0 (0%)  \n");
  EXPECT_EQ(inspect({.kind = InspectKind::kGpus}, cluster).out, "NAME  ALLGPU  USEDGPU\n");
}

TEST(Inspect, ReportsAnUnknownNodeLikeTheOriginal) {
  SavedCluster cluster;
  fill_tessera_cluster(cluster);
  const Outcome one = inspect({.nodes = {"gpu-c"}}, cluster);
  EXPECT_EQ(one.code, 1);
  EXPECT_EQ(one.out, "Failed due to nodes \"gpu-c\" not found");
  EXPECT_EQ(inspect({.nodes = {"gpu-a", "gpu-c"}}, cluster).code, 1);
}

TEST(Inspect, CountsLargeGpusInGibNotInMib) {
  SavedCluster cluster;
  cluster.plain_node("h200", {.units = 141 * 8, .gpus = 8});
  EXPECT_TRUE(has(inspect({}, cluster).out, "GPU Memory(GiB)"));
}

TEST(Inspect, ConvertsToOneUnitIfNodesUseTwo) {
  SavedCluster cluster;
  cluster.plain_node("a-gib", {.units = 15, .gpus = 1});
  cluster.plain_node("b-mib", {.units = 15360, .gpus = 1});
  cluster.pod("ml", "x", "a-gib", {.units = 3, .annotations = {{"ALIYUN_COM_GPU_MEM_IDX", "0"}}});
  cluster.pod("ml", "y", "b-mib", {.units = 1024, .annotations = {{"ALIYUN_COM_GPU_MEM_IDX", "0"}}});
  const Outcome summary = inspect({}, cluster);
  EXPECT_TRUE(has(summary.out, "GPU Memory(MiB)")) << summary.out;
  EXPECT_TRUE(has(summary.out, "3072/15360")) << summary.out;
  EXPECT_TRUE(has(summary.out, "4096/30720 (13%)")) << summary.out;
  EXPECT_TRUE(has(summary.err, "one unit")) << summary.err;
}

TEST(Inspect, TreatsGpuIndexesThatDoNotExistLikeTheOriginal) {
  SavedCluster cluster;
  cluster.plain_node("n", {.units = 30, .gpus = 2});
  cluster.pod("ml", "far", "n", {.units = 3, .annotations = {{"ALIYUN_COM_GPU_MEM_IDX", "7"}}});
  EXPECT_TRUE(has(inspect({}, cluster).out, "0/30 (0%)"));
  EXPECT_TRUE(has(inspect({.details = true}, cluster).out, "3/30 (10%)"));
  EXPECT_TRUE(has(inspect({.output = "wide"}, cluster).out, "missing"));
}

TEST(Inspect, ShowsAPodOneIndexPastTheLastGpuLikeTheOriginal) {
  SavedCluster cluster;
  cluster.plain_node("old", {.units = 32, .gpus = 2});
  cluster.pod("ml", "past", "old", {.units = 3, .annotations = {{"ALIYUN_COM_GPU_MEM_IDX", "2"}}});
  cluster.pod("ml", "undecided", "old", {.units = 5});
  const std::string out = inspect({.details = true}, cluster).out;
  EXPECT_TRUE(has(out,
                  "past         ml         0                0                3                   \n"
                  "undecided    ml         0                0                5                   \n"))
      << out;
}

TEST(Inspect, CountsUndecidedPodsAsPending) {
  SavedCluster cluster;
  cluster.node("gpu-a", inventory_of("a", 2, 16384));
  cluster.pod("ml", "stray", "gpu-a", {.units = 4});
  EXPECT_TRUE(has(inspect({}, cluster).out, "PENDING(Allocated)"));
  const Outcome wide = inspect({.output = "wide"}, cluster);
  EXPECT_TRUE(has(wide.out, "undecided")) << wide.out;
  EXPECT_TRUE(has(wide.err, "warning: pod ml/stray runs on node gpu-a without a GPU allocation")) << wide.err;
}

TEST(Inspect, WarnsAboutInvalidAnnotationsAndContinues) {
  SavedCluster cluster;
  cluster.node_with_inventory_text("gpu-a", "{not json", 32, 2);
  cluster.pod(
      "ml", "bad", "gpu-a",
      {.units = 4, .annotations = {{"tessera.io/allocation", "[]"}, {"ALIYUN_COM_GPU_MEM_IDX", "1"}}});
  const Outcome summary = inspect({}, cluster);
  EXPECT_EQ(summary.code, 0);
  EXPECT_TRUE(has(summary.out, "0/16                   4/16")) << summary.out;
  EXPECT_TRUE(has(summary.err, "warning: node gpu-a: its inventory cannot be read")) << summary.err;
  EXPECT_TRUE(has(summary.err, "warning: pod ml/bad: its record")) << summary.err;
}

TEST(Inspect, DoesNotShowAPodOnAnotherGpuIfItsOwnIsMissing) {
  SavedCluster cluster;
  cluster.node("gpu-a", inventory_of("a", 2, 16384));
  cluster.pod("ml", "lost", "gpu-a",
              {.units = 4,
               .annotations = {{"tessera.io/allocation", share_record({{"GPU-gone", 4}})},
                               {"ALIYUN_COM_GPU_MEM_IDX", "0"},
                               {"ALIYUN_COM_GPU_MEM_POD", "4"}}});
  const Outcome summary = inspect({}, cluster);
  EXPECT_TRUE(has(summary.out, "gpu-a  10.0.0.1   0/16                   0/16                   4 "))
      << summary.out;
  EXPECT_TRUE(has(summary.err, "GPU-gone")) << summary.err;
}

TEST(Inspect, LeavesOutPodsOnNodesThatDoNotExist) {
  SavedCluster cluster;
  cluster.plain_node("n", {.units = 30, .gpus = 2});
  cluster.pod("ml", "ghost", "gone", {.units = 3, .annotations = {{"ALIYUN_COM_GPU_MEM_IDX", "0"}}});
  const Outcome summary = inspect({}, cluster);
  EXPECT_EQ(summary.code, 0);
  EXPECT_TRUE(has(summary.out, "0/30 (0%)")) << summary.out;
}

TEST(Inspect, AcceptsImpossiblyLargeAmounts) {
  SavedCluster cluster;
  cluster.plain_node("n", {.units = INT64_MAX, .gpus = 2});
  cluster.plain_node("many", {.units = 5, .gpus = INT64_MAX});
  for (const char* name : {"x", "y"}) {
    cluster.pod(
        "ml", name, "n",
        {.units = INT64_MAX / 2, .annotations = {{"ALIYUN_COM_GPU_MEM_IDX", "-9223372036854775808"}}});
    cluster.pod("ml", std::string(name) + "2", "n",
                {.units = 1,
                 .annotations = {{"scheduler.framework.gpushare.allocation",
                                  R"({"0":{"0":9223372036854775807,"-1":-9223372036854775808}})"}}});
  }
  for (const char* output : {"text", "wide", "json"}) {
    EXPECT_EQ(inspect({.output = output}, cluster).code, 0);
    EXPECT_EQ(inspect({.details = true, .output = output}, cluster).code, 0);
    EXPECT_EQ(inspect({.kind = InspectKind::kGpus, .output = output}, cluster).code, 0);
  }
}

TEST(Inspect, FiltersAndSortsNodes) {
  SavedCluster cluster;
  fill_tessera_cluster(cluster);
  const auto first_node = [&](const InspectOptions& options) {
    const std::string out = inspect(options, cluster).out;
    const std::size_t line = out.find('\n') + 1;
    return out.substr(line, 5);
  };
  EXPECT_EQ(first_node({}), "gpu-a");
  EXPECT_EQ(first_node({.sort_by = "percent"}), "gpu-b");
  EXPECT_EQ(first_node({.kind = InspectKind::kGpus, .sort_by = "used"}), "gpu-a");
  EXPECT_EQ(first_node({.selector = "zone=west"}), "gpu-b");
  EXPECT_FALSE(has(inspect({.selector = "zone!=west"}, cluster).out, "gpu-b"));
}

TEST(Inspect, RejectsAnInvalidSelectorBeforeItReadsAnything) {
  const Outcome wrong = run_in_pipe("kubectl-inspect-gpushare", {"-l", "zone in west", "--file", "/nowhere"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(has(wrong.err, "--selector: \"zone in west\"")) << wrong.err;
}

TEST(Inspect, CountsOnlyTheGivenNamespace) {
  SavedCluster cluster;
  fill_tessera_cluster(cluster);
  InspectOptions options{.details = true};
  options.cluster.namespace_name = "ml";
  const Outcome details = inspect(options, cluster);
  EXPECT_TRUE(has(details.out, "infer"));
  EXPECT_FALSE(has(details.out, "split"));
}

TEST(Inspect, ExplainsHowToSaveAMissingFile) {
  const TemporaryDirectory empty;
  std::ostringstream out;
  std::ostringstream err;
  InspectOptions options;
  options.cluster.file = empty.path();
  EXPECT_EQ(run_inspect(options, out, err, {}), 1);
  EXPECT_TRUE(has(err.str(), "kubectl get nodes -o json")) << err.str();
}

TEST(InspectPlugin, RejectsInvalidOptions) {
  EXPECT_EQ(run_in_pipe("kubectl-inspect-gpu", {"--sort-by", "colour"}).code, 2);
  const Outcome help = run_in_pipe("kubectl-inspect-gpushare", {"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(has(help.out, "kubectl inspect gpushare -d gpu-node-1")) << help.out;
  EXPECT_EQ(run_in_pipe("kubectl-inspect-gpu", {"--version"}).code, 0);
}

TEST(InspectWatch, RedrawsInPlaceWhenTheFilesChangeAndLeavesTheLastFrame) {
  SavedCluster cluster;
  cluster.plain_node("n", {.units = 30, .gpus = 2});
  const std::string directory = cluster.write();
  TerminalProgram program("kubectl-inspect-gpushare", {"--file", directory, "--watch", "--interval", "1"},
                          {{"TERM", "xterm"}});
  ASSERT_TRUE(program.read_until("\x1b[?1049h")) << program.output();
  ASSERT_TRUE(program.read_until("0/30 (0%)")) << program.output();
  cluster.pod("ml", "new", "n", {.units = 6, .annotations = {{"ALIYUN_COM_GPU_MEM_IDX", "0"}}});
  cluster.write();
  ASSERT_TRUE(program.read_until("\x1b[H")) << "the cursor must move home before each redraw";
  ASSERT_TRUE(program.read_until("6/30 (20%)")) << program.output();
  program.signal(SIGINT);
  EXPECT_EQ(program.finish(), 0);
  ASSERT_TRUE(has(program.output(), "\x1b[?1049l"));
  EXPECT_TRUE(has(program.output().substr(program.output().rfind("\x1b[?1049l")), "6/30 (20%)"));
}

TEST(InspectWatch, EndsWhenTheReaderClosesThePipe) {
  SavedCluster cluster;
  cluster.plain_node("n", {.units = 30, .gpus = 2});
  EXPECT_EQ(run_and_close_pipe("kubectl-inspect-gpushare", {"--file", cluster.write(), "--watch"}, "0/30"), 0)
      << "must end even though nothing changes and nothing is written";
}

TEST(InspectWatch, AdaptsToAResizedScreenAndWrapsNoLines) {
  SavedCluster cluster;
  for (int i = 0; i < 40; ++i) {
    cluster.plain_node("n" + std::to_string(i), {.units = 30, .gpus = 2});
  }
  TerminalProgram program("kubectl-inspect-gpushare",
                          {"--file", cluster.write(), "--watch", "--interval", "3600"}, {{"TERM", "xterm"}});
  ASSERT_TRUE(program.read_until("\x1b[?7l")) << program.output();
  ASSERT_TRUE(program.read_until(" more lines")) << program.output();
  const std::string before = program.output().substr(program.output().rfind("... "));
  program.resize(10, 80);
  ASSERT_TRUE(program.read_until(" more lines")) << program.output();
  EXPECT_NE(program.output().substr(program.output().rfind("... ")), before);
  program.signal(SIGTERM);
  EXPECT_EQ(program.finish(), 0);
  EXPECT_TRUE(has(program.output(), "\x1b[?7h"));
}

TEST(InspectWatch, CutsLinesThatDoNotFitOnTheScreen) {
  EXPECT_EQ(redrawn("a\nb\n", 0), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
  EXPECT_EQ(redrawn("a\nb\nc\nd\n", 4), "\x1b[Ha\x1b[K\nb\x1b[K\n... 2 more lines\x1b[K\n\x1b[J");
  EXPECT_EQ(redrawn("a\nb\nc\n", 4), "\x1b[Ha\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J");
}

TEST(Inspect, RecognizesTheProgramNamesOfKubectlAndKrew) {
  EXPECT_TRUE(is_inspect_plugin("/usr/local/bin/kubectl-inspect-gpushare"));
  EXPECT_TRUE(is_inspect_plugin("kubectl-inspect_gpu"));
  EXPECT_FALSE(is_inspect_plugin("/opt/kubectl-inspect-gpu/tessera"));
}

}  // namespace
}  // namespace tessera::cli
