// The diagnoses of `why`, `check`, `top` and `inspect` when something is broken. The tests in
// cluster/diagnosis.sh make the same situations with a real kubelet, agent and extender.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <sstream>

#include "base/json_reader.h"
#include "cli/cluster/pod_problems.h"
#include "cli/diagnose/check.h"
#include "cli/diagnose/why_context.h"
#include "cli/inspect/inspect.h"
#include "cli/top/top.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <class Options, class Run>
Outcome outcome_of(Options options, const SavedCluster& cluster, Run run) {
  std::ostringstream out;
  std::ostringstream err;
  options.cluster.file = cluster.write();
  const int code = run(options, out, err, Terminal{});
  return {code, out.str(), err.str()};
}
Outcome why(const SavedCluster& cluster, WhyOptions options) {
  return outcome_of(std::move(options), cluster, run_why);
}
Outcome check(const SavedCluster& cluster) {
  return outcome_of(CheckOptions{}, cluster, run_check);
}
Outcome top(const SavedCluster& cluster, TopOptions options = {}) {
  options.cluster.all_namespaces = options.pods;
  return outcome_of(std::move(options), cluster, run_top);
}
Outcome inspect(const SavedCluster& cluster, InspectKind kind, const std::string& output) {
  return outcome_of(InspectOptions{.kind = kind, .output = output}, cluster, run_inspect);
}

// One node with 2 GPUs of 16 GiB, a pod on GPU 0, and a pod that waits.
void fill(SavedCluster& cluster, const Texts& labels = {}) {
  cluster.placer("tessera-scheduler-0");
  cluster.node("gpu-a", inventory_of("a", 2, 16384), labels);
  cluster.pod(
      "ml", "runs", "gpu-a",
      {.units = 3, .annotations = record(share_record({{"GPU-a-0", 3}})), .scheduler = "tessera-scheduler"});
  cluster.pod(
      "ml", "waits", "",
      {.units = 4, .phase = "Pending", .scheduler = "tessera-scheduler", .scheduling_attempted = true});
}

TEST(NoAgent, IsTheReasonWhyAPodWaits) {
  SavedCluster cluster;
  fill(cluster);
  EXPECT_THAT(why(cluster, {.pod = "ml/waits"}).out, HasSubstr("It fits now on 1 node"));
  cluster.offers_nothing();
  const std::string text = why(cluster, {.pod = "ml/waits"}).out;
  EXPECT_THAT(text,
              AllOf(HasSubstr("No node fits now."), Not(HasSubstr("fits now on")),
                    HasSubstr("gpu-a  -         -     -         no agent serves its GPUs: kubelet offers no "
                              "aliyun.com/gpu-mem; start tessera-agent there, usually with: kubectl label "
                              "node gpu-a gpushare=true"),
                    HasSubstr("0 GiB are free in total")));
}

TEST(NoAgent, IsReportedByCheckAndMarkedByTopAndInspect) {
  SavedCluster cluster;
  fill(cluster, {{"gpushare", "true"}});
  cluster.node("gpu-b", inventory_of("b", 1, 8192));
  EXPECT_EQ(check(cluster).code, 0);
  cluster.offers_nothing();
  const Outcome checked = check(cluster);
  EXPECT_EQ(checked.code, kFoundProblems);
  EXPECT_THAT(checked.out, AllOf(HasSubstr("no_agent  node gpu-b: no agent serves its GPUs"),
                                 Not(HasSubstr("nothing_allocatable"))));
  const Outcome nodes = top(cluster);
  EXPECT_THAT(nodes.out, AllOf(HasSubstr("ready,NoAgent"), HasSubstr("3/32 (GiB) (9%)"),
                               HasSubstr("Not counted, because they take no pods now: gpu-b")));
  EXPECT_THAT(nodes.err, HasSubstr("warning: node gpu-b: no agent serves its GPUs"));
  EXPECT_THAT(top(cluster, {.output = "json"}).out, HasSubstr("\"problem\": \"no agent serves"));
  EXPECT_THAT(top(cluster, {.details = true}).out, HasSubstr("Problem: no agent serves"));
  EXPECT_THAT(inspect(cluster, InspectKind::kShares, "text").err, HasSubstr("warning: node gpu-b: no agent"));
  EXPECT_THAT(inspect(cluster, InspectKind::kGpus, "wide").out, HasSubstr("x     0/1   0     1"));
  EXPECT_THAT(inspect(cluster, InspectKind::kGpus, "json").out, HasSubstr("\"unhealthy\": \"NoAgent\""));
}

TEST(NoAgent, IsKnownFromTheDrainingAnnotationAndFromThePodOfTheAgent) {
  SavedCluster draining;
  fill(draining);
  draining.annotate("tessera.io/draining", "7");
  EXPECT_THAT(
      why(draining, {.pod = "ml/waits"}).out,
      AllOf(HasSubstr("No node fits now."), HasSubstr("no agent serves its GPUs: the last one has ended")));
  SavedCluster broken;
  fill(broken, {{"gpushare", "true"}});
  broken.agent("gpu-a", false);
  EXPECT_THAT(
      why(broken, {.pod = "ml/waits"}).out,
      HasSubstr("the pod tessera-system/tessera-agent-gpu-a is not ready; see: kubectl -n tessera-system "
                "describe pod tessera-agent-gpu-a"));
  EXPECT_EQ(check(broken).code, kFoundProblems);
  SavedCluster updating;
  fill(updating);
  updating.agent("gpu-a", false);
  updating.agent("gpu-a", true);
  EXPECT_THAT(why(updating, {.pod = "ml/waits"}).out, HasSubstr("It fits now"));
}

TEST(NoAgent, IsNotReportedIfAllGpusAreUnhealthy) {
  SavedCluster cluster;
  alloc::Inventory inventory = inventory_of("a", 1, 16384);
  inventory.gpus[0].unhealthy = "XID 79";
  cluster.node("gpu-a", inventory);
  cluster.offers_nothing();
  cluster.pod("ml", "waits", "", {.units = 4, .phase = "Pending"});
  EXPECT_THAT(why(cluster, {.pod = "ml/waits"}).out,
              AllOf(HasSubstr("GPU 0 unhealthy: XID 79"), Not(HasSubstr("no agent"))));
}

TEST(NoAgent, CoversTheOriginalPlugin) {
  SavedCluster cluster;
  cluster.plain_node("old", {.units = 32, .gpus = 2});
  cluster.pod("ml", "waits", "", {.units = 4, .phase = "Pending"});
  EXPECT_THAT(why(cluster, {.pod = "ml/waits"}).out, HasSubstr("It fits now"));
  cluster.offers_nothing();
  EXPECT_THAT(why(cluster, {.pod = "ml/waits"}).out, HasSubstr("no device plugin serves its GPUs"));
}

TEST(Why, ReportsAResourceThatKubeletDoesNotOffer) {
  SavedCluster cluster;
  cluster.plain_node("gpu-a", {.units = 32,
                               .gpus = 2,
                               .annotations = {{"tessera.io/inventory", inventory_of("a", 2, 16384).json()}},
                               .whole = 2,
                               .unhealthy_units = 32});
  cluster.pod("ml", "share", "", {.units = 4, .phase = "Pending"});
  cluster.pod("ml", "whole", "", {.whole = 1, .phase = "Pending"});
  EXPECT_THAT(why(cluster, {.pod = "ml/share"}).out,
              HasSubstr("Node gpu-a has room, but kubelet offers no aliyun.com/gpu-mem there"));
  EXPECT_THAT(why(cluster, {.pod = "ml/whole"}).out, HasSubstr("It fits now"));
}

TEST(DriverHangs, IsReportedByAllCommands) {
  const std::string hang = "nvmlDeviceGetMemoryInfo has not returned for 5 s";
  for (const bool published : {true, false}) {
    SavedCluster cluster;
    cluster.placer("tessera-scheduler-0");
    alloc::Inventory inventory = inventory_of("a", 2, 16384);
    for (alloc::Gpu& gpu : inventory.gpus) {
      gpu.unhealthy = published ? hang : "";
    }
    cluster.node("gpu-a", inventory);
    cluster.unhealthy("DriverHangs", hang);
    cluster.pod("ml", "waits", "", {.units = 4, .phase = "Pending"});
    const Outcome checked = check(cluster);
    EXPECT_EQ(checked.code, kFoundProblems);
    EXPECT_THAT(checked.out,
                AllOf(HasSubstr("driver_hangs"), HasSubstr("node gpu-a: the NVIDIA driver hangs"),
                      HasSubstr(hang), HasSubstr("1 error, 0 notes")));
    EXPECT_THAT(top(cluster).out, AllOf(HasSubstr("ready,DriverHangs"), HasSubstr("0/0 (GiB)")));
    EXPECT_THAT(inspect(cluster, InspectKind::kGpus, "wide").out, HasSubstr("xx    0/2   0     2"));
    EXPECT_THAT(inspect(cluster, InspectKind::kGpus, "json").out,
                HasSubstr(published ? hang : std::string("DriverHangs")));
    if (!published) {  // otherwise no memory is allocatable, and the original does not show such a node
      EXPECT_THAT(inspect(cluster, InspectKind::kShares, "wide").out, HasSubstr("2 unhealthy"));
    }
    EXPECT_THAT(inspect(cluster, InspectKind::kShares, "text").err, HasSubstr("the NVIDIA driver hangs"));
    EXPECT_THAT(why(cluster, {.pod = "ml/waits"}).out,
                AllOf(HasSubstr("No node fits now."), HasSubstr("the NVIDIA driver hangs"),
                      Not(HasSubstr("no agent"))));
  }
}

TEST(Check, ReportsEveryConditionThatIsFalse) {
  SavedCluster cluster;
  cluster.placer("tessera-scheduler-0");
  alloc::Inventory inventory = inventory_of("a", 2, 16384);
  inventory.gpus[1].unhealthy = "XID 79";
  cluster.node("gpu-a", inventory);
  EXPECT_EQ(check(cluster).code, 0);  // a note: the agent does not write conditions here
  cluster.unhealthy("GPUUnhealthy", "1 of 2 GPUs must not be used");
  EXPECT_EQ(check(cluster).code, kFoundProblems);
  cluster.node("gpu-b", inventory_of("b", 1, 16384));
  cluster.unhealthy("GPUUnhealthy", "1 of 2 GPUs must not be used; GPU 1 cannot be read");
  EXPECT_THAT(check(cluster).out,
              HasSubstr("node gpu-b: its condition GPUsHealthy is False (GPUUnhealthy): 1 of 2"));
  cluster.plain_node("empty", {.labels = {{"gpushare", "true"}}});
  cluster.unhealthy("NoGPUs", "the driver lists no GPU");
  EXPECT_THAT(check(cluster).out,
              AllOf(HasSubstr("node empty: its condition GPUsHealthy is False (NoGPUs): the"),
                    Not(HasSubstr("publishes no GPUs"))));
}

const std::string kNoDevices =
    "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
    "aliyun.com/gpu-mem, which is unexpected";

TEST(RefusedPod, IsExplained) {
  SavedCluster cluster;
  fill(cluster);
  const SavedPod refused{
      .units = 3, .phase = "Failed", .reason = "UnexpectedAdmissionError", .message = kNoDevices};
  cluster.pod("ml", "alone", "gpu-a", refused);
  SavedPod owned = refused;
  owned.owner_kind = "ReplicaSet";
  owned.owner_name = "web-5d8f";
  cluster.pod("ml", "web-5d8f-x", "gpu-a", owned);
  const Outcome alone = why(cluster, {.pod = "ml/alone"});
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(
      alone.out,
      AllOf(HasSubstr("ml/alone will never run: kubelet on node gpu-a refused it (UnexpectedAdmissionError"),
            HasSubstr("Cause: no agent was registered with kubelet at that moment"),
            HasSubstr("run kubectl delete pod alone -n ml, and create the pod again")));
  EXPECT_THAT(why(cluster, {.pod = "ml/web-5d8f-x"}).out,
              HasSubstr("Its ReplicaSet web-5d8f creates another pod"));
  cluster.offers_nothing();
  EXPECT_THAT(why(cluster, {.pod = "ml/alone"}).out,
              HasSubstr("Now, on node gpu-a, no agent serves its GPUs"));
}

TEST(EndedPod, IsNotTakenForAWaitingOne) {
  SavedCluster cluster;
  fill(cluster);
  cluster.pod("ml", "done", "gpu-a", {.units = 3, .phase = "Succeeded"});
  cluster.pod("ml", "evicted", "gpu-a",
              {.units = 3, .phase = "Failed", .reason = "Evicted", .message = "The node was low on memory."});
  EXPECT_EQ(why(cluster, {.pod = "ml/done"}).out, "ml/done has ended: its containers succeeded.\n");
  EXPECT_EQ(why(cluster, {.pod = "ml/evicted"}).out,
            "ml/evicted has ended on node gpu-a (Evicted: The node was low on memory.).\n");
}

TEST(NodeName, IsNamedAsTheCauseInsteadOfTheScheduler) {
  SavedCluster cluster;
  fill(cluster);
  cluster.pod("ml", "pinned", "gpu-a",
              {.units = 2, .phase = "Pending", .scheduler = "tessera-scheduler", .node_set_by = "client"});
  const std::string advice =
      "pod ml/pinned sets nodeName: gpu-a, which bypasses the scheduler, so no GPU was chosen for it; create "
      "it "
      "again without nodeName; to choose the node, use nodeSelector kubernetes.io/hostname: gpu-a";
  const std::string text = why(cluster, {.pod = "ml/pinned"}).out;
  EXPECT_THAT(text, AllOf(HasSubstr(advice), Not(HasSubstr("schedulerName"))));
  const Outcome checked = check(cluster);
  EXPECT_EQ(checked.code, kFoundProblems);
  EXPECT_THAT(checked.out, AllOf(HasSubstr("undecided  " + advice), Not(HasSubstr("not_wired"))));
}

TEST(NodeName, IsProbableIfTheSchedulerPlacesOtherPods) {
  SavedCluster cluster;  // saved without managedFields
  fill(cluster);
  cluster.pod("ml", "pinned", "gpu-a", {.units = 2, .phase = "Pending", .scheduler = "tessera-scheduler"});
  EXPECT_THAT(check(cluster).out, AllOf(HasSubstr("probably it sets nodeName"), Not(HasSubstr("not_wired"))));
}

TEST(NodeName, IsNotTheCauseIfASchedulerBoundThePod) {
  SavedCluster cluster;
  fill(cluster);
  cluster.pod("ml", "stray", "gpu-a",
              {.units = 2, .phase = "Pending", .scheduler = "default-scheduler", .node_set_by = "binding"});
  const std::string text = check(cluster).out;
  EXPECT_THAT(text,
              AllOf(HasSubstr("not_wired"),
                    HasSubstr("the scheduler default-scheduler does not call Tessera; create it again with "
                              "schedulerName: tessera-scheduler")));
  EXPECT_THAT(text, Not(HasSubstr("without nodeName")));
}

TEST(RunningPod, IsReportedIfItsGpuIsUnhealthyOrGone) {
  SavedCluster cluster;
  alloc::Inventory inventory = inventory_of("a", 2, 16384);
  inventory.gpus[0].unhealthy = "the GPU is lost";
  cluster.node("gpu-a", inventory);
  cluster.pod("ml", "runs", "gpu-a", {.units = 3, .annotations = record(share_record({{"GPU-a-0", 3}}))});
  cluster.pod("ml", "gone", "gpu-a", {.units = 3, .annotations = record(share_record({{"GPU-x", 3}}))});
  EXPECT_EQ(why(cluster, {.pod = "ml/runs"}).out,
            "ml/runs is not waiting for a node: it is on node gpu-a, GPU 0 (3 GiB).\n"
            "But GPU 0 is unhealthy: the GPU is lost; delete the pod so that it is placed on another GPU.\n");
  EXPECT_THAT(why(cluster, {.pod = "ml/gone"}).out,
              HasSubstr("But GPU \"GPU-x\" is not in node gpu-a any more"));
  EXPECT_THAT(top(cluster, {.pods = true}).out,
              AllOf(HasSubstr("PROBLEM"), HasSubstr("GPU 0 is unhealthy: the GPU is lost")));
}

constexpr const char* kMetrics =
    "tessera_gpu_memory_used_bytes{gpu=\"0\",uuid=\"GPU-a-0\"} 5368709120\n"
    "tessera_container_gpu_memory_allocated_bytes{namespace=\"ml\",pod=\"runs\",container=\"main\",gpu=\"0\","
    "uuid=\"GPU-a-0\"} 3221225472\n"
    "tessera_container_gpu_memory_used_bytes{namespace=\"ml\",pod=\"runs\",container=\"main\",gpu=\"0\","
    "uuid=\"GPU-a-0\"} 5261334937\n"
    "tessera_container_gpu_memory_exceeded{namespace=\"ml\",pod=\"runs\",container=\"main\",gpu=\"0\","
    "uuid=\"GPU-a-0\"} 1\n"
    "tessera_container_gpu_memory_used_bytes{namespace=\"ml\",pod=\"calm\",container=\"main\",gpu=\"0\","
    "uuid=\"GPU-a-0\"} 1048576\n"
    "tessera_container_gpu_memory_exceeded{namespace=\"ml\",pod=\"calm\",container=\"main\",gpu=\"0\","
    "uuid=\"GPU-a-0\"} 0\n";

TEST(MemoryOveruse, IsReportedByWhyCheckAndTop) {
  SavedCluster saved;
  fill(saved);
  ClusterQuery query;
  query.details = true;
  const auto cluster = read_cluster({.file = saved.write()}, query);
  ASSERT_TRUE(cluster);
  Usage usage;
  read_usage(kMetrics, usage);
  ASSERT_EQ(usage.exceeded.size(), 1U);
  EXPECT_DOUBLE_EQ(usage.pod_memory_mib.at("ml/calm"), 1);
  const std::string text = "container main uses 4.9 GiB of GPU 0, but its share is 3.0 GiB";

  const WhyContext context(*cluster, alloc::Unit::gib(), usage);
  NodeJudge judge(context);
  for (const alloc::PodSpec& pod : cluster->pods) {
    const std::string why = why_text(explain(context, judge, pod), {});
    EXPECT_EQ(has(why, "But " + text + "; other pods on that GPU"), pod.name == "runs") << why;
  }
  const CheckReport report = check_cluster(*cluster, alloc::Unit::gib(), {.usage = usage});
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].kind, "memory_exceeded");
  EXPECT_TRUE(report.findings[0].serious);
  EXPECT_THAT(report.findings[0].text, HasSubstr("pod ml/runs on node gpu-a: " + text));
  const TopOptions options{.pods = true, .cluster = {.all_namespaces = true}};
  const auto view = make_top(options, *cluster, usage);
  ASSERT_TRUE(view);
  EXPECT_THAT(top_pods_text(*view, {}), HasSubstr(text));
}

TEST(WhyList, NamesTheMainReasonOfEveryWaitingPod) {
  SavedCluster cluster;
  fill(cluster);
  cluster.pod("ml", "large", "", {.units = 15, .phase = "Pending"});
  cluster.pod("ml", "full", "gpu-a", {.units = 14, .annotations = record(share_record({{"GPU-a-1", 14}}))});
  cluster.pod("web", "odd", "", {.units = -3, .phase = "Pending"});
  cluster.pod("web", "plain", "", {.phase = "Pending"});
  cluster.pod("ml", "blocked", "gpu-a",
              {.units = 1,
               .annotations = record(share_record({{"GPU-a-0", 1}})),
               .phase = "Pending",
               .waiting_message = "the driver is missing"});
  WhyOptions options;
  options.cluster.namespace_name = "ml";
  EXPECT_EQ(
      why(cluster, options).out,
      "POD      NODE   NEEDS                        WAITS BECAUSE\n"
      "blocked  gpu-a  -                            container main does not start: the driver is missing\n"
      "large    -      15 GiB on one GPU (binpack)  no single GPU has 15GiB free; fits when ml/runs (3 GiB) "
      "on gpu-a ends\n"
      "waits    -      4 GiB on one GPU (binpack)   fits now on 1 node, best on gpu-a (GPU 0) by the default "
      "policy\n"
      "1 pod waits in other namespaces; -A lists them.\n"
      "\"tessera why POD\" explains one of them in detail.\n");
  options.cluster.namespace_name = "";
  options.cluster.all_namespaces = true;
  EXPECT_THAT(why(cluster, options).out,
              AllOf(HasSubstr("web        odd"), HasSubstr("its request is invalid"),
                    Not(HasSubstr("web        plain"))));
  options.output = "json";
  const auto document = parse_json(why(cluster, options).out);
  ASSERT_TRUE(document);
  EXPECT_EQ(document->at("waiting"), 4);
  EXPECT_EQ(document->at("items").as_array().size(), 4U);
  options.cluster = {.namespace_name = "empty"};
  options.output = "text";
  EXPECT_EQ(why(cluster, options).out,
            "No pod in namespace empty waits for a GPU.\n3 pods wait in other namespaces; -A lists them.\n");
}

TEST(WhyOwner, ExplainsThePodsOfAController) {
  SavedCluster cluster;
  fill(cluster);
  const auto add = [&](const std::string& name, const std::string& kind, const std::string& owner,
                       const Texts& labels, const std::string& node) {
    cluster.pod("ml", name, node,
                {.units = node.empty() ? 20 : 1,
                 .annotations = node.empty() ? Texts() : record(share_record({{"GPU-a-0", 1}})),
                 .phase = node.empty() ? "Pending" : "Running",
                 .owner_kind = kind,
                 .owner_name = owner,
                 .labels = labels});
  };
  add("train-a", "Job", "train", {}, "");
  add("train-b", "Job", "train", {}, "");
  add("train-c", "Job", "train", {}, "gpu-a");
  add("web-5d8f-x", "ReplicaSet", "web-5d8f", {{"pod-template-hash", "5d8f"}}, "");
  add("night-29-z", "Job", "night-29", {}, "");
  const std::string job = why(cluster, {.pod = "job/ml/train"}).out;
  EXPECT_THAT(job, AllOf(HasSubstr("job ml/train: 2 of 3 pods wait.\n\ntrain-a needs 20 GiB"),
                         HasSubstr("The same applies to ml/train-b.\n"), Not(HasSubstr("train-c"))));
  EXPECT_THAT(why(cluster, {.pod = "deploy/ml/web"}).out, HasSubstr("deployment ml/web: 1 of 1 pod waits."));
  EXPECT_THAT(why(cluster, {.pod = "Deployment.apps/ml/web"}).out, HasSubstr("deployment ml/web: 1 of 1"));
  EXPECT_THAT(why(cluster, {.pod = "rs/ml/web-5d8f"}).out, HasSubstr("replicaset ml/web-5d8f: 1 of 1"));
  EXPECT_THAT(why(cluster, {.pod = "cronjob/ml/night"}).out, HasSubstr("cronjob ml/night: 1 of 1"));
  const Outcome none = why(cluster, {.pod = "sts/ml/web"});
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(
      none.err,
      "tessera: statefulset ml/web has no pods; see: kubectl describe statefulset web -n ml, or give another "
      "namespace with -n\n");
  const auto document = parse_json(why(cluster, {.pod = "job/ml/train", .output = "json"}).out);
  ASSERT_TRUE(document);
  EXPECT_EQ(document->at("waiting"), 2);
  EXPECT_EQ(document->at("items").as_array().at(0).at("sameFor").as_array().size(), 1U);
}

TEST(WhyTarget, RejectsNamesThatNameNothing) {
  for (const char* text : {"job/", "/", "ml/", "/x", "a/b/c", "pod/a/b/c"}) {
    EXPECT_FALSE(WhyTarget::parse(text)) << text;
  }
  EXPECT_EQ(WhyTarget::parse("job")->name, "job");  // a pod may have this name
  EXPECT_EQ(WhyTarget::parse("ml/job")->namespace_name, "ml");
  EXPECT_TRUE(WhyTarget::parse("")->is_all());
}

TEST(Why, NamesTheNodeWhereTheLeastMustEnd) {
  SavedCluster cluster;
  cluster.node("gpu-a", inventory_of("a", 1, 16384));
  cluster.node("gpu-b", inventory_of("b", 1, 16384));
  cluster.pod("ml", "big", "gpu-a", {.units = 10, .annotations = record(share_record({{"GPU-a-0", 10}}))});
  cluster.pod("ml", "rest", "gpu-b", {.units = 9, .annotations = record(share_record({{"GPU-b-0", 9}}))});
  cluster.pod("ml", "small", "gpu-b", {.units = 2, .annotations = record(share_record({{"GPU-b-0", 2}}))});
  cluster.pod("ml", "x", "", {.units = 7, .phase = "Pending"});
  const std::string text = why(cluster, {.pod = "ml/x"}).out;
  EXPECT_THAT(text, AllOf(HasSubstr("ml/big (10 GiB) ends"), HasSubstr("ml/small (2 GiB) ends"),
                          HasSubstr("The least to free is ml/small (2 GiB) on gpu-b\n")));
}

}  // namespace
}  // namespace tessera::cli
