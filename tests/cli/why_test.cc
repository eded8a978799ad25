#include "cli/diagnose/why.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/json_reader.h"
#include "golden.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

Outcome why(WhyOptions options, const SavedCluster& cluster) {
  std::ostringstream out;
  std::ostringstream err;
  options.cluster.file = cluster.write();
  const int code = run_why(options, out, err, {});
  return {code, out.str(), err.str()};
}

// Adds two nodes with some free memory, one with an unhealthy GPU, and two without GPUs.
void fill(SavedCluster& cluster) {
  cluster.node("gpu-a", inventory_of("a", 2, 16384));
  cluster.node("gpu-b", inventory_of("b", 2, 16384));
  alloc::Inventory unhealthy = inventory_of("c", 1, 16384);
  unhealthy.gpus[0].unhealthy = "XID 79";
  cluster.node("gpu-c", unhealthy);
  cluster.plain_node("cpu-1", {});
  cluster.plain_node("cpu-2", {});
  cluster.pod("ml", "notebook", "gpu-a",
              {.units = 11, .annotations = record(share_record({{"GPU-a-0", 11}}))});
  cluster.pod("ml", "bert", "gpu-a", {.whole = 1, .annotations = record(whole_record({"GPU-a-1"}))});
  cluster.pod("ml", "infer-1", "gpu-b", {.units = 4, .annotations = record(share_record({{"GPU-b-0", 4}}))});
  cluster.pod("ml", "infer-2", "gpu-b", {.units = 5, .annotations = record(share_record({{"GPU-b-0", 5}}))});
  cluster.pod("ml", "infer-3", "gpu-b",
              {.units = 12, .annotations = record(share_record({{"GPU-b-1", 12}}))});
  cluster.pod("ml", "train-7", "", {.units = 8, .phase = "Pending"});
  cluster.pod("ml", "pair", "", {.whole = 2, .phase = "Pending"});
}

TEST(Why, ShowsWhatEachNodeLacksAndWhichPodsBlockIt) {
  SavedCluster cluster;
  fill(cluster);
  WhyOptions options{.pod = "train-7"};
  options.cluster.namespace_name = "ml";
  const Outcome text = why(options, cluster);
  EXPECT_EQ(text.code, 0) << text.err;
  expect_golden("why-share.txt", text.out);
  options.output = "json";
  expect_golden("why-share.json", why(options, cluster).out);
}

TEST(Why, ExplainsRequestsForWholeGpus) {
  SavedCluster cluster;
  fill(cluster);
  expect_golden("why-whole.txt", why({.pod = "ml/pair"}, cluster).out);
}

TEST(Why, ShowsWhereAPodFitsAndWhatElseMayBlockIt) {
  SavedCluster cluster;
  fill(cluster);
  cluster.pod("ml", "small", "", {.units = 3, .phase = "Pending"});
  const Outcome text = why({.pod = "ml/small"}, cluster);
  EXPECT_TRUE(has(text.out, "small needs 3 GiB on one GPU (binpack). It fits now on 2 nodes, best on "))
      << text.out;
  EXPECT_TRUE(has(text.out, "kubectl describe pod small -n ml")) << text.out;
}

TEST(Why, KnowsTheWholeGpusOfTheOriginalTopologyPlugin) {
  SavedCluster cluster;
  cluster.plain_node("topo",
                     {.annotations = {{"GPU_TOPOLOGY", R"({"GPU_NV1_0_2":"Single NVLink"})"}}, .whole = 3});
  cluster.pod("ml", "pair", "", {.whole = 2, .phase = "Pending"});
  cluster.pod("ml", "share", "", {.units = 3, .phase = "Pending"});
  const Outcome fits = why({.pod = "ml/pair"}, cluster);
  EXPECT_TRUE(has(fits.out, "best on topo (GPU 0 and 2)")) << fits.out;
  const Outcome share = why({.pod = "ml/share"}, cluster);
  EXPECT_TRUE(
      has(share.out, "node runs the original topology plugin, which serves only one container's whole GPUs"))
      << share.out;
  cluster.pod(
      "ml", "group", "topo",
      {.whole = 2, .annotations = {{"ALIYUN_COM_GPU_GROUP", "0,2"}, {"ALIYUN_COM_GPU_ASSIGNED", "true"}}});
  const Outcome taken = why({.pod = "ml/pair"}, cluster);
  EXPECT_TRUE(has(taken.out, "ml/group (2 GPUs) ends")) << taken.out;
  EXPECT_TRUE(
      has(why({.pod = "ml/group"}, cluster).out, "it is on node topo, GPU 0 (whole) and GPU 2 (whole)."))
      << why({.pod = "ml/group"}, cluster).out;
}

TEST(Why, ShowsTheGpusOfABoundPod) {
  SavedCluster cluster;
  fill(cluster);
  EXPECT_TRUE(has(why({.pod = "pod/ml/bert"}, cluster).out, "it is on node gpu-a, GPU 1 (whole)."));
  cluster.pod("ml", "stray", "gpu-b", {.units = 1});
  const Outcome stray = why({.pod = "ml/stray"}, cluster);
  EXPECT_TRUE(has(stray.out, "without a GPU allocation")) << stray.out;
}

TEST(Why, ExplainsPodsWithoutGpusAndInvalidRequests) {
  SavedCluster cluster;
  fill(cluster);
  cluster.pod("ml", "web", "", {.phase = "Pending"});
  cluster.pod("ml", "odd", "", {.units = -3, .phase = "Pending"});
  cluster.pod("ml", "zero", "", {.phase = "Pending", .zero_limits = true});
  EXPECT_TRUE(has(why({.pod = "ml/web"}, cluster).out, "requests no GPUs"));
  EXPECT_TRUE(has(why({.pod = "ml/zero"}, cluster).out, "requests no GPUs"));
  const Outcome odd = why({.pod = "ml/odd"}, cluster);
  EXPECT_EQ(odd.code, 0);
  EXPECT_TRUE(has(odd.out, "its request is invalid")) << odd.out;
}

TEST(Why, ReportsASchedulerThatDoesNotCallTessera) {
  SavedCluster cluster;
  fill(cluster);
  cluster.placer("tessera-scheduler-0");
  cluster.pod(
      "ml", "past", "",
      {.units = 3, .phase = "Pending", .scheduler = "default-scheduler", .scheduling_attempted = true});
  const Outcome text = why({.pod = "ml/past"}, cluster);
  EXPECT_TRUE(has(text.out,
                  "But its schedulerName is default-scheduler, which does not call Tessera: create it "
                  "again with tessera-scheduler."))
      << text.out;
  EXPECT_FALSE(has(text.out, "If it stays pending")) << text.out;
}

TEST(Why, AcceptsSchedulersThatCallTesseraThroughAService) {
  SavedCluster cluster;
  fill(cluster);
  cluster.placer("tessera-extender-0", {.component = "extender", .leads = true});
  cluster.pod("ml", "placed", "gpu-a",
              {.units = 1, .annotations = record(share_record({{"GPU-a-0", 1}})), .scheduler = "mine"});
  cluster.pod("ml", "next", "",
              {.units = 3, .phase = "Pending", .scheduler = "mine", .scheduling_attempted = true});
  EXPECT_FALSE(has(why({.pod = "ml/next"}, cluster).out, "But "));
}

TEST(Why, ReportsGatesDeletionAndPodsThatNoSchedulerTried) {
  SavedCluster cluster;
  fill(cluster);
  cluster.placer("tessera-scheduler-0");
  cluster.pod("ml", "gated", "",
              {.units = 3,
               .phase = "Pending",
               .scheduler = "tessera-scheduler",
               .gates = {"kueue.x-k8s.io/admission"}});
  cluster.pod("ml", "ends", "",
              {.units = 3,
               .phase = "Pending",
               .scheduler = "tessera-scheduler",
               .scheduling_attempted = true,
               .deleting = true});
  cluster.pod("ml", "fresh", "", {.units = 3, .phase = "Pending", .scheduler = "tessera-scheduler"});
  const Outcome gated = why({.pod = "ml/gated"}, cluster);
  EXPECT_TRUE(has(gated.out, "But it has the scheduling gate kueue.x-k8s.io/admission: schedulers ignore it"))
      << gated.out;
  EXPECT_FALSE(has(gated.out, "has not tried to place it yet")) << gated.out;
  EXPECT_TRUE(has(why({.pod = "ml/ends"}, cluster).out, "But it is being deleted"));
  EXPECT_TRUE(has(why({.pod = "ml/fresh"}, cluster).out,
                  "But the scheduler tessera-scheduler has not tried to place it yet"));
}

TEST(Why, ShowsKubeletsReasonForAContainerThatDoesNotStart) {
  SavedCluster cluster;
  fill(cluster);
  cluster.pod("ml", "held", "gpu-b",
              {.units = 1,
               .annotations = record(share_record({{"GPU-b-0", 1}})),
               .phase = "Pending",
               .waiting_message = "pod ml/held: GPU 0 is unhealthy (XID 79)"});
  const Outcome text = why({.pod = "ml/held"}, cluster);
  EXPECT_TRUE(
      has(text.out,
          "it is on node gpu-b, GPU 0 (1 GiB).\nBut container main does not start: pod ml/held: GPU 0 is "
          "unhealthy (XID 79)."))
      << text.out;
}

TEST(Why, ConsidersNodeSelectorsAndTaints) {
  SavedCluster cluster;
  cluster.node("gpu-a", inventory_of("a", 1, 16384), {{"zone", "east"}});
  cluster.node("gpu-b", inventory_of("b", 1, 16384), {{"zone", "west"}});
  cluster.taint("nvidia.com/gpu", "present", "NoSchedule");
  cluster.node("gpu-c", inventory_of("c", 1, 16384), {{"zone", "west"}});
  cluster.taint("soft", "", "PreferNoSchedule");
  cluster.pod("ml", "x", "", {.units = 3, .phase = "Pending", .node_selector = {{"zone", "west"}}});
  const Outcome text = why({.pod = "ml/x"}, cluster);
  EXPECT_TRUE(has(text.out, "It fits now on 1 node, best on gpu-c (GPU 0) by the default policy."))
      << text.out;
  EXPECT_TRUE(has(text.out, "the pod's nodeSelector requires zone=west")) << text.out;
  EXPECT_TRUE(has(text.out, "the pod does not tolerate the taint nvidia.com/gpu=present:NoSchedule"))
      << text.out;
}

TEST(Why, ReportsNodesWithRoomThatDoNotAcceptThePod) {
  SavedCluster cluster;
  cluster.node("gpu-a", inventory_of("a", 1, 16384));
  cluster.taint("reserved", "", "NoSchedule");
  cluster.pod("ml", "x", "", {.units = 3, .phase = "Pending"});
  const Outcome one = why({.pod = "ml/x"}, cluster);
  EXPECT_TRUE(has(one.out,
                  "x needs 3 GiB on one GPU (binpack). Node gpu-a has room, but the pod does not "
                  "tolerate the taint reserved:NoSchedule.\n"))
      << one.out;
  cluster.node("gpu-b", inventory_of("b", 1, 16384));
  cluster.taint("down", "", "NoExecute");
  cluster.node("gpu-c", inventory_of("c", 1, 2048));
  const Outcome two = why({.pod = "ml/x"}, cluster);
  EXPECT_TRUE(has(two.out, "2 nodes have room, but none accepts the pod: on gpu-a, the pod does not"))
      << two.out;
}

TEST(Why, SuggestsOnlyWhatThePodMayUse) {
  SavedCluster cluster;
  cluster.node("gpu-a", inventory_of("a", 1, 32768));
  cluster.taint("reserved", "", "NoSchedule");
  cluster.node("gpu-b", inventory_of("b", 1, 8192, "Tesla T4"));
  cluster.pod("ml", "x", "", {.units = 9, .phase = "Pending"});
  cluster.pod("ml", "picky", "",
              {.units = 16, .annotations = {{"tessera.io/gpu-model", "H100"}}, .phase = "Pending"});
  EXPECT_TRUE(has(why({.pod = "ml/x"}, cluster).out, "Try aliyun.com/gpu-mem: 8\n"));
  EXPECT_FALSE(has(why({.pod = "ml/picky"}, cluster).out, "Try without the annotations"));
}

TEST(Why, UsesThePoliciesOfTheCluster) {
  SavedCluster cluster;
  cluster.node("gpu-a", inventory_of("a", 2, 16384));
  cluster.pod("ml", "y", "gpu-a", {.units = 4, .annotations = record(share_record({{"GPU-a-0", 4}}))});
  cluster.pod("ml", "x", "", {.units = 3, .phase = "Pending"});
  cluster.placer("tessera-scheduler-0", {.annotations = {{"tessera.io/policy-shared", "spread"}}});
  EXPECT_TRUE(has(why({.pod = "ml/x"}, cluster).out,
                  "x needs 3 GiB on one GPU (spread). It fits now on 1 node, best on gpu-a (GPU 1)."))
      << why({.pod = "ml/x"}, cluster).out;
}

TEST(Why, NamesNoBestNodeIfOnlyTheExtenderKnowsIt) {
  SavedCluster cluster;
  cluster.node("gpu-a", inventory_of("a", 2, 16384));
  cluster.pod("ml", "x", "", {.units = 3, .phase = "Pending"});
  cluster.placer("tessera-scheduler-0", {.annotations = {{"tessera.io/policy-shared", "fgd"}}});
  EXPECT_TRUE(
      has(why({.pod = "ml/x"}, cluster).out, "x needs 3 GiB on one GPU (fgd). It fits now on 1 node.\n"))
      << why({.pod = "ml/x"}, cluster).out;
}

TEST(Why, SuggestsToDropAModelThatNoNodeHas) {
  SavedCluster cluster;
  fill(cluster);
  cluster.pod("ml", "picky", "",
              {.units = 3, .annotations = {{"tessera.io/gpu-model", "H100"}}, .phase = "Pending"});
  const Outcome text = why({.pod = "ml/picky"}, cluster);
  EXPECT_TRUE(has(text.out, "of model H100")) << text.out;
  EXPECT_TRUE(has(text.out, "Try without the annotations")) << text.out;
}

TEST(Why, ExplainsHowToAddGpuNodes) {
  SavedCluster cluster;
  cluster.plain_node("cpu-1", {});
  cluster.pod("ml", "x", "", {.units = 3, .phase = "Pending"});
  const Outcome text = why({.pod = "ml/x"}, cluster);
  EXPECT_TRUE(has(text.out, "1 node without shared GPUs")) << text.out;
  EXPECT_TRUE(has(text.out, "gpushare=true")) << text.out;
}

TEST(Why, ReportsAPodThatDoesNotExist) {
  SavedCluster cluster;
  fill(cluster);
  const Outcome text = why({.pod = "train-8"}, cluster);
  EXPECT_EQ(text.code, 1);
  EXPECT_TRUE(has(text.err, "pod default/train-8 does not exist")) << text.err;
}

TEST(Why, CutsLongListsAndCountsTheirReasons) {
  SavedCluster cluster;
  for (int i = 0; i < 30; ++i) {
    cluster.node("gpu-" + std::to_string(100 + i), inventory_of(std::to_string(i), 1, 8192));
  }
  cluster.pod("ml", "x", "", {.units = 9, .phase = "Pending"});
  const Outcome text = why({.pod = "ml/x"}, cluster);
  EXPECT_TRUE(has(text.out, "... and 10 more nodes (-o json lists all): 30 no GPU is as large as 9GiB"))
      << text.out;
}

TEST(Why, UsesTheUnitOfTheAgents) {
  SavedCluster cluster;
  alloc::Inventory inventory = inventory_of("m", 1, 16384);
  inventory.unit = alloc::Unit::mib();
  cluster.node("gpu-m", inventory);
  cluster.pod("ml", "x", "", {.units = 20000, .phase = "Pending"});
  EXPECT_TRUE(has(why({.pod = "ml/x"}, cluster).out, "x needs 20000 MiB"))
      << why({.pod = "ml/x"}, cluster).out;
  EXPECT_EQ(why({.pod = "ml/x", .unit = "parsec"}, cluster).code, 1);
}

TEST(Why, IsACommandOfTessera) {
  SavedCluster cluster;
  fill(cluster);
  const Outcome outcome =
      run_in_pipe("kubectl-tessera", {"why", "train-7", "-n", "ml", "--file", cluster.write()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "No node fits now.")) << outcome.out;
  EXPECT_EQ(run_in_pipe("tessera", {"why", "-A", "--file", cluster.write()}).code, 0);
  EXPECT_EQ(run_in_pipe("tessera", {"why", "a", "b"}).code, 2);
}

}  // namespace
}  // namespace tessera::cli
