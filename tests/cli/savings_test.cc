// Saved clusters whose answer is worked out by hand. A share is the measured memory times 1.2, plus
// 512 MiB, rounded up to GiB. A T4 of these tests has 16384 MiB; 512 of them are the driver's, which
// leaves 15 units.
#include "cli/savings/savings.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <boost/json.hpp>
#include <sstream>

#include "base/json_reader.h"
#include "golden.h"
#include "gpu_cluster.h"
#include "kube/rfc3339.h"
#include "program.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

Outcome savings(SavingsOptions options, const GpuCluster& cluster) {
  std::ostringstream out;
  std::ostringstream err;
  options.cluster.file = cluster.write();
  options.usage = cluster.usage_file();
  const int code = run_savings(options, out, err, {});
  return {code, out.str(), err.str()};
}

SavingsView view_of(SavingsOptions options, const GpuCluster& cluster) {
  options.cluster.file = cluster.write();
  options.usage = cluster.usage_file();
  auto view = make_savings(options);
  EXPECT_TRUE(view) << view.error().text();
  return view ? *std::move(view) : SavingsView{};
}

SavingsReport report_of(const SavingsOptions& options, const GpuCluster& cluster) {
  return view_of(options, cluster).report;
}

std::string reason_of(const SavingsReport& report, const std::string& pod) {
  for (const SavingsPod& one : report.pods) {
    if (one.text() == pod) {
      return one.whole ? std::string(to_string(*one.whole)) : "shares";
    }
  }
  return "not counted";
}

// Four pods of 2048 MiB: 2048 * 1.2 + 512 = 2969.6 MiB, so 3 units each and 12 of 15 together.
// Their utilization of 10% is 10 / 80 of what a GPU may have, rounded up 13% each, 52% together.
void fill_small(GpuCluster& cluster) {
  cluster.node("a", {.gpus = 4});
  for (const char* name : {"ml/p0", "ml/p1", "ml/p2", "ml/p3"}) {
    cluster.pod(name, "a", {.memory_mib = 2048, .utilization = 10});
  }
}

TEST(Savings, PutsPodsThatFitOnOneGpu) {
  GpuCluster cluster;
  fill_small(cluster);
  const Outcome outcome = savings({}, cluster);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("The pods on your 4 GPUs fit on 1.\n"));
  EXPECT_THAT(outcome.out, HasSubstr("No node would be without GPU pods"));
  EXPECT_EQ(outcome.err, "");
}

// Five pods of 3 units fill a T4 exactly; the sixth needs a second one.
TEST(Savings, OpensASecondGpuForThePodThatDoesNotFit) {
  GpuCluster cluster;
  cluster.node("a", {.gpus = 8});
  for (int i = 0; i < 6; ++i) {
    cluster.pod("ml/p" + std::to_string(i), "a", {.memory_mib = 2048, .utilization = 1});
  }
  const SavingsReport report = report_of({}, cluster);
  EXPECT_EQ(report.held, 6);
  EXPECT_EQ(report.needed, 2);
  EXPECT_EQ(report.groups[0].at_least, 2);  // 18 units on GPUs of 15
  EXPECT_EQ(report.gpus, 8);
  EXPECT_EQ(report.groups[0].unallocated(), 2);
}

// The sum of the utilization limits a shared GPU as well: 45% is 57% of the allowed 80%, so two such
// pods do not fit on one GPU. With --gpu-utilization 90 it is 50% of what is allowed, so two fit.
TEST(Savings, LimitsTheUtilizationOfASharedGpu) {
  GpuCluster cluster;
  cluster.node("a", {.gpus = 4});
  for (int i = 0; i < 4; ++i) {
    cluster.pod("ml/p" + std::to_string(i), "a", {.memory_mib = 100, .utilization = 45});
  }
  EXPECT_EQ(report_of({}, cluster).needed, 4);
  EXPECT_EQ(report_of({.gpu_utilization = 90}, cluster).needed, 2);
  EXPECT_EQ(report_of({.ignore_utilization = true}, cluster).needed, 1);
  EXPECT_EQ(report_of({.max_utilization = 40}, cluster).needed, 4);
  EXPECT_EQ(reason_of(report_of({.max_utilization = 40}, cluster), "ml/p0"), "too_busy");
}

TEST(Savings, SaysWhyAPodStaysWhole) {
  GpuCluster cluster;
  cluster.node("a", {.gpus = 8});
  cluster.node("no-size", {.gpus = 1, .model = "Tesla-P4", .memory_mib = 0});
  cluster.node("red", {.gpus = 1, .model = "", .memory_mib = 0, .resource = "amd.com/gpu"});
  cluster.pod("ml/two", "a", {.gpus = 2, .memory_mib = 1000, .utilization = 1});
  cluster.pod("prod/other-team", "a", {.memory_mib = 1000, .utilization = 1});
  cluster.pod("ml/busy", "a", {.memory_mib = 1000, .utilization = 51});
  // 13000 * 1.2 + 512 = 16112 MiB are 16 units, one more than the GPU has. 12000 need 15.
  cluster.pod("ml/large", "a", {.memory_mib = 13000, .utilization = 1});
  cluster.pod("ml/just-fits", "a", {.memory_mib = 12000, .utilization = 50});
  cluster.pod("ml/unmeasured", "a", {});
  cluster.pod("ml/no-utilization", "a", {.memory_mib = 1000});
  cluster.pod("ml/on-no-size", "no-size", {.memory_mib = 1000, .utilization = 1});
  cluster.pod("ml/on-red", "red", {.resource = "amd.com/gpu", .memory_mib = 1000, .utilization = 1});
  const SavingsReport report = report_of({.excluded_namespaces = {"prod"}}, cluster);
  EXPECT_EQ(reason_of(report, "ml/two"), "several_gpus");
  EXPECT_EQ(reason_of(report, "prod/other-team"), "excluded");
  EXPECT_EQ(reason_of(report, "ml/busy"), "too_busy");
  EXPECT_EQ(reason_of(report, "ml/large"), "too_large");
  EXPECT_EQ(reason_of(report, "ml/just-fits"), "shares");
  EXPECT_EQ(reason_of(report, "ml/unmeasured"), "no_memory_measured");
  EXPECT_EQ(reason_of(report, "ml/no-utilization"), "no_utilization_measured");
  EXPECT_EQ(reason_of(report, "ml/on-no-size"), "unknown_gpu_memory");
  EXPECT_EQ(reason_of(report, "ml/on-red"), "other_vendor");
  EXPECT_EQ(report.held, 10);
  EXPECT_EQ(report.needed, 10);  // only one pod may share, and it fills its GPU
  EXPECT_EQ(reason_of(report_of({.gpu_memory = "P4=8GiB"}, cluster), "ml/on-no-size"), "shares");
  EXPECT_EQ(reason_of(report_of({.ignore_utilization = true}, cluster), "ml/no-utilization"), "shares");
  EXPECT_EQ(reason_of(report_of({.namespaces = {"prod"}}, cluster), "prod/other-team"), "shares");
  EXPECT_EQ(reason_of(report_of({.namespaces = {"prod"}}, cluster), "ml/just-fits"), "excluded");
}

TEST(Savings, KeepsYoungPodsWhole) {
  GpuCluster cluster;
  cluster.node("a", {.gpus = 2});
  cluster.pod("ml/p0", "a", {});
  cluster.pod("ml/new", "a",
              {.gpus = 1, .memory_mib = 1, .utilization = 1, .created = "2026-06-01T10:00:00Z"});
  auto read = read_cluster({.file = cluster.write()}, {.want_pod = [](const alloc::PodSpec&) { return true; },
                                                       .details = true,
                                                       .resources = resources_to_read({})});
  ASSERT_TRUE(read);
  Measurements measured;
  measured.pods["ml/new"][""] = {.memory_mib = 1, .utilization_percent = 1};
  measured.pods["ml/p0"][""] = {.memory_mib = 1, .utilization_percent = 1};
  SavingsRules rules;
  rules.min_age_s = 3600;
  rules.now = *kube::parse_rfc3339("2026-06-01T10:59:59Z");
  EXPECT_EQ(reason_of(plan_savings(*read, measured, rules), "ml/new"), "too_young");
  EXPECT_EQ(reason_of(plan_savings(*read, measured, rules), "ml/p0"), "shares");
  rules.now = *kube::parse_rfc3339("2026-06-01T11:00:00Z");
  EXPECT_EQ(reason_of(plan_savings(*read, measured, rules), "ml/new"), "shares");
}

// Two T4 nodes with one GPU each, and one node with two A100: each model needs one GPU for its two
// pods of 3 units. The pods of one T4 node move to the other, so that node is free.
//   freed: 1 T4 and 1 A100 = 0.5 + 3 = 3.50 per hour, 2,555 per month of 730 hours
//   nodes: 1 node with 1 T4 = 0.50 per hour, 365 per month
void fill_two_models(GpuCluster& cluster) {
  cluster.node("t4-1", {.gpus = 1});
  cluster.node("t4-2", {.gpus = 1});
  cluster.node("a100", {.gpus = 2, .model = "NVIDIA-A100-SXM4-80GB", .memory_mib = 81920});
  cluster.pod("ml/small-1", "t4-1", {.memory_mib = 2048, .utilization = 5});
  cluster.pod("ml/small-2", "t4-2", {.memory_mib = 2048, .utilization = 5});
  cluster.pod("ml/large-1", "a100", {.memory_mib = 2048, .utilization = 5});
  cluster.pod("ml/large-2", "a100", {.memory_mib = 2048, .utilization = 5});
}

TEST(Savings, KeepsPodsOnTheirGpuModel) {
  GpuCluster cluster;
  fill_two_models(cluster);
  const SavingsReport report = report_of({}, cluster);
  EXPECT_EQ(report.held, 4);
  EXPECT_EQ(report.needed, 2);
  ASSERT_EQ(report.groups.size(), 2U);
  EXPECT_EQ(report.groups[0].model, "NVIDIA-A100-SXM4-80GB");
  EXPECT_EQ(report.groups[0].needed(), 1);
  EXPECT_EQ(report.groups[1].needed(), 1);
  ASSERT_EQ(report.groups[1].freed_nodes.size(), 1U);
  EXPECT_EQ(report.groups[1].freed_node_gpus, 1);
}

TEST(Savings, KeepsPodsInTheirPool) {
  GpuCluster cluster;
  cluster.node("a", {.gpus = 1, .pool = "blue"});
  cluster.node("b", {.gpus = 1, .pool = "green"});
  cluster.pod("ml/p0", "a", {.memory_mib = 100, .utilization = 1});
  cluster.pod("ml/p1", "b", {.memory_mib = 100, .utilization = 1});
  EXPECT_EQ(report_of({}, cluster).needed, 2);
  EXPECT_EQ(report_of({.pool_label = "nvidia.com/gpu.product"}, cluster).needed, 1);
}

TEST(Savings, CountsMoneyByModel) {
  GpuCluster cluster;
  fill_two_models(cluster);
  std::string text = savings({.price = "A100=3,T4=0.5"}, cluster).out;
  std::ranges::replace(text, '\n', ' ');
  EXPECT_THAT(text, HasSubstr("Sharing frees 2 GPUs, worth 3.50 USD per hour, 2,555 USD per month."));
  EXPECT_THAT(
      text,
      HasSubstr("1 node with 1 GPU would hold no GPU pod any more; removing it saves 0.50 USD per hour, "
                "365 USD per month."));
  // 1 * 0.5 for the T4; nothing is known about the A100.
  const std::string partly = savings({.price = "T4=0.5", .currency = "EUR"}, cluster).out;
  EXPECT_THAT(partly, HasSubstr("worth 0.50 EUR per hour"));
  EXPECT_THAT(partly, HasSubstr("no price for NVIDIA-A100-SXM4-80GB"));
  EXPECT_THAT(savings({.price = "2"}, cluster).out, HasSubstr("worth 4.00 USD per hour"));
}

// 512 * 1.2 = 614.4 MiB are one unit, so a GPU has room for all eight pods. But each pod requests 8
// CPUs. Of the 40 CPUs of a node, a pod without GPUs takes 8 on node a, and 4 GPU pods take the rest
// there. Node b has room for 5. So both nodes are needed, with one shared GPU each.
TEST(Savings, CountsTheCpuOfTheNodes) {
  GpuCluster cluster;
  for (const char* node : {"a", "b"}) {
    cluster.node(node, {.gpus = 4, .cpu = "40"});
    for (int i = 0; i < 4; ++i) {
      cluster.pod(std::string("ml/") + node + std::to_string(i), node,
                  {.cpu = "8", .memory_mib = 512, .utilization = 1});
    }
  }
  cluster.pod("kube-system/other", "a", {.gpus = 0, .cpu = "8"});
  const SavingsReport report = report_of({.reserve = "0"}, cluster);
  EXPECT_EQ(report.held, 8);
  EXPECT_EQ(report.needed, 2);
  EXPECT_EQ(report.groups[0].at_least, 1);
  EXPECT_THAT(report.groups[0].freed_nodes, IsEmpty());
}

// The larger share is placed first, on node a by name, and leaves 2 CPUs there. Then the pod with 4
// CPUs fits on no node. It must stay whole on its node a, so the other pod stays on node b.
TEST(Savings, FallsBackToWholeGpusWhereSharesFindNoRoom) {
  GpuCluster cluster;
  cluster.node("a", {.gpus = 1, .cpu = "4"});
  cluster.node("b", {.gpus = 1, .cpu = "2"});
  cluster.pod("ml/many-cpus", "a", {.cpu = "4", .memory_mib = 100, .utilization = 1});
  cluster.pod("ml/much-memory", "b", {.cpu = "2", .memory_mib = 5000, .utilization = 1});
  const SavingsReport report = report_of({}, cluster);
  EXPECT_EQ(report.needed, 2);
  EXPECT_EQ(reason_of(report, "ml/many-cpus"), "no_room");
  EXPECT_EQ(reason_of(report, "ml/much-memory"), "shares");
  EXPECT_THAT(report.warnings, IsEmpty());
}

boost::json::value parsed(const std::string& text) {
  return boost::json::parse(text);
}

// Two pods on two nodes fit on one GPU, unless something ties them to their nodes.
std::int64_t needed_by_two(const GpuPod& first, const GpuNode& second_node = {.gpus = 1}) {
  GpuCluster cluster;
  cluster.node("a", {.gpus = 1, .labels = {{"disk", "fast"}, {"rank", "5"}}});
  cluster.node("b", second_node);
  GpuPod pod = first;
  pod.memory_mib = 100;
  pod.utilization = 1;
  cluster.pod("ml/first", "a", pod);
  // Cannot leave its node, so the first pod has to move.
  pod.node_selector = {};
  pod.toleration = "special";
  pod.affinity = parsed(R"({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
    {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]}}})");
  cluster.pod("ml/second", "b", pod);
  return report_of({}, cluster).needed;
}

std::string node_affinity(const std::string& expression) {
  return R"({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
    [{"matchExpressions": [)" +
         expression + "]}]}}}";
}

TEST(Savings, KeepsTheConstraintsOfPods) {
  EXPECT_EQ(needed_by_two({}), 1);
  EXPECT_EQ(needed_by_two({.node_selector = {{"disk", "fast"}}}), 2);
  EXPECT_EQ(needed_by_two({}, {.gpus = 1, .taint = "special"}), 2);
  EXPECT_EQ(needed_by_two({.toleration = "special"}, {.gpus = 1, .taint = "special"}), 1);
  EXPECT_EQ(needed_by_two({}, {.gpus = 1, .cordoned = true}), 2);
  for (const char* ties : {R"({"key": "disk", "operator": "Exists"})",
                           R"({"key": "disk", "operator": "In", "values": ["fast", "slow"]})",
                           R"({"key": "rank", "operator": "Gt", "values": ["4"]})",
                           R"({"key": "disk", "operator": "Unknown"})"}) {
    EXPECT_EQ(needed_by_two({.affinity = parsed(node_affinity(ties))}), 2) << ties;
  }
  for (const char* free : {R"({"key": "zone", "operator": "DoesNotExist"})",
                           R"({"key": "disk", "operator": "NotIn", "values": ["slow"]})"}) {
    EXPECT_EQ(needed_by_two({.affinity = parsed(node_affinity(free))}), 1) << free;
  }
  for (const char* kind : {"podAffinity", "podAntiAffinity"}) {
    const std::string required =
        std::string("{\"") + kind +
        R"(": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}})";
    EXPECT_EQ(needed_by_two({.affinity = parsed(required)}), 2) << kind;
    const std::string preferred =
        std::string("{\"") + kind +
        R"(": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}})";
    EXPECT_EQ(needed_by_two({.affinity = parsed(preferred)}), 1) << kind;
  }
}

TEST(Savings, LeavesMigAndTimeSlicingAsTheyAre) {
  GpuCluster cluster;
  fill_small(cluster);
  cluster.node("mixed", {.gpus = 0, .model = "NVIDIA-A100-SXM4-40GB", .mig_devices = 7});
  cluster.node("single", {.gpus = 7, .model = "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", .memory_mib = 4864});
  cluster.node("sliced",
               {.gpus = 8, .model = "Tesla-T4-SHARED", .labels = {{"nvidia.com/gpu.replicas", "4"}}});
  cluster.pod("ml/mig-0", "mixed", {.gpus = 2, .resource = "nvidia.com/mig-1g.5gb"});
  cluster.pod("ml/mig-1", "single", {.memory_mib = 100, .utilization = 1});
  cluster.pod("ml/slice", "sliced", {.memory_mib = 100, .utilization = 1});
  const SavingsReport report = report_of({}, cluster);
  EXPECT_EQ(report.gpus, 4);
  EXPECT_EQ(report.needed, 1);
  EXPECT_EQ(report.mig_pods, 2);
  EXPECT_EQ(report.mig_devices, 3);
  EXPECT_EQ(report.sliced_pods, 1);
  EXPECT_EQ(report.pods.size(), 4U);
  EXPECT_THAT(savings({}, cluster).out, HasSubstr("2 pods hold 3 MIG devices."));
}

TEST(Savings, CountsIdleUnallocatedAndWaiting) {
  GpuCluster cluster;
  cluster.node("a", {.gpus = 4});
  cluster.pod("ml/asleep", "a", {.memory_mib = 100, .utilization = 0.9});
  cluster.pod("ml/awake", "a", {.memory_mib = 100, .utilization = 1});
  cluster.pod("ml/waits", "", {.gpus = 3, .phase = "Pending"});
  cluster.pod("ml/done", "a", {.phase = "Succeeded"});
  const SavingsReport report = report_of({}, cluster);
  EXPECT_EQ(report.held, 2);
  EXPECT_EQ(report.idle(), 1);
  EXPECT_EQ(report.groups[0].unallocated(), 2);
  EXPECT_EQ(report.waiting_pods, 1);
  EXPECT_EQ(report.waiting_gpus, 3);
  EXPECT_EQ(report_of({.idle = 0.5}, cluster).idle(), 0);
}

// A node with Tessera's agent: two pods share GPU-t-0 already with 10 units together, and one pod
// holds GPU-t-1 whole. Its inventory of 16384 MiB has 16 units. The whole pod needs 3, which fit next
// to the 10.
TEST(Savings, CountsPodsThatAlreadyShare) {
  GpuCluster cluster;
  const alloc::Inventory inventory = inventory_of("t", 2, 16384, "Tesla T4");
  cluster.node("t", {.gpus = 2, .resource = "aliyun.com/gpu", .inventory = inventory.json()});
  cluster.pod(
      "ml/share-0", "t",
      {.gpus = 6, .resource = "aliyun.com/gpu-mem", .annotations = record(share_record({{"GPU-t-0", 6}}))});
  cluster.pod(
      "ml/share-1", "t",
      {.gpus = 4, .resource = "aliyun.com/gpu-mem", .annotations = record(share_record({{"GPU-t-0", 4}}))});
  cluster.pod("ml/whole", "t",
              {.resource = "aliyun.com/gpu",
               .memory_mib = 2048,
               .utilization = 5,
               .annotations = record(whole_record({"GPU-t-1"}))});
  const SavingsReport report = report_of({}, cluster);
  EXPECT_EQ(report.held, 2);
  EXPECT_EQ(report.already_shared, 1);
  EXPECT_EQ(report.needed, 1);
  ASSERT_EQ(report.shared.size(), 1U);
  EXPECT_EQ(report.shared[0].used_units, 13U);
  EXPECT_TRUE(report.shared[0].shared_now);
}

// GPU 0 is a T4 and GPU 1 an A100. The record says that the pod holds the A100, so it may share the
// A100 of the other node, and only that. The pod without a record stays whole.
TEST(Savings, FollowsRecordsOnNodesWithSeveralModels) {
  GpuCluster cluster;
  alloc::Inventory mixed = inventory_of("m", 2, 16384, "Tesla T4");
  mixed.gpus[1].model = "NVIDIA A100-SXM4-80GB";
  mixed.gpus[1].memory_mib = 81920;
  cluster.node("mixed", {.gpus = 2, .resource = "aliyun.com/gpu", .inventory = mixed.json()});
  cluster.node("plain", {.gpus = 2,
                         .resource = "aliyun.com/gpu",
                         .inventory = inventory_of("p", 2, 81920, "NVIDIA A100-SXM4-80GB").json()});
  cluster.pod("ml/known", "mixed",
              {.resource = "aliyun.com/gpu",
               .memory_mib = 40000,
               .utilization = 5,
               .annotations = record(whole_record({"GPU-m-1"}))});
  cluster.pod("ml/peer", "plain",
              {.resource = "aliyun.com/gpu",
               .memory_mib = 100,
               .utilization = 5,
               .annotations = record(whole_record({"GPU-p-0"}))});
  cluster.pod("ml/unknown", "mixed", {.resource = "nvidia.com/gpu", .memory_mib = 100, .utilization = 5});
  const SavingsReport report = report_of({}, cluster);
  EXPECT_EQ(reason_of(report, "ml/known"), "shares");
  EXPECT_EQ(reason_of(report, "ml/peer"), "shares");
  EXPECT_EQ(reason_of(report, "ml/unknown"), "unknown_model");
  EXPECT_EQ(report.held, 3);
  EXPECT_EQ(report.needed, 2);
}

TEST(Savings, ComparesPolicies) {
  GpuCluster cluster;
  fill_small(cluster);
  const SavingsReport report = report_of({.policies = "binpack,spread,fgd"}, cluster);
  ASSERT_EQ(report.outcomes.size(), 3U);
  EXPECT_EQ(report.outcomes[0].gpus, 1);
  EXPECT_EQ(report.outcomes[1].gpus, 4);  // spread uses every free GPU
  EXPECT_EQ(report.needed, 1);
  EXPECT_THAT(savings({.policies = "spread,binpack"}, cluster).out,
              StartsWith("The pods on your 4 GPUs need all of them"));
}

// The example of docs/savings.md.
//   training    16 GPUs: three pods with several GPUs stay whole                         16
//   notebooks    6 GPUs: notebook-5 was not measured and stays whole. Four idle pods of 900 MiB
//                need 2 units (1592 MiB) each, and notebook-4 10 units (10112 MiB): 18 of the 21
//                units of an A10G ((23028 - 512) / 1024)                                  2
//   inference   18 GPUs: video-0 is busy, and llm-0 needs 19 units; both stay whole (2). Shares:
//                asr 12 units (11312 MiB), embed 7 (6512 MiB), ranker 4 (3392 MiB). The largest
//                first: 2 GPUs with asr, 2 GPUs with 2 embed each, 4 GPUs with up to 3 rankers (8).
//                                                                                        10
// A better order needs 7 GPUs for the shares: embed with two rankers fills a GPU (15 units).
TEST(Savings, AnswersForTheExampleOfTheGuide) {
  GpuCluster cluster;
  fill_gpu_cluster(cluster);
  const SavingsOptions options{.policies = "binpack,fgd,spread", .price = "A100=3.20,A10G=1.00,T4=0.35"};
  SavingsView view = view_of(options, cluster);
  EXPECT_EQ(view.report.gpus, 48);
  EXPECT_EQ(view.report.held, 40);
  EXPECT_EQ(view.report.needed, 28);
  ASSERT_EQ(view.report.groups.size(), 3U);
  EXPECT_EQ(view.report.groups[0].needed(), 10);  // inference
  EXPECT_EQ(view.report.groups[0].at_least, 9);   // 2 whole, 92 units on GPUs of 15
  EXPECT_EQ(view.report.groups[1].needed(), 2);   // notebooks
  EXPECT_EQ(view.report.groups[2].needed(), 16);  // training
  EXPECT_EQ(view.report.idle(), 4);
  view.report.measured_by = "usage.csv";  // the path differs from run to run
  expect_golden("savings.txt", savings_text(view, {}));
  expect_golden("savings.md", savings_markdown(view));
  expect_golden("savings.svg", savings_svg(view));
  const auto document = parse_json(savings_json(view, false));
  ASSERT_TRUE(document) << document.error().text();
  EXPECT_EQ(document->at("answer"), "The pods on 40 of your 48 GPUs fit on 28.");
  EXPECT_EQ(document->at("needed"), 28);
  EXPECT_EQ(document->at("pools").at(0).at("freedNodes").as_array().size(), 2U);
  EXPECT_EQ(document->at("whole").at(0).at("reason"), "several_gpus");
  EXPECT_EQ(document->at("money").at("freedGpusPerHour").to_number<double>(), 6.8);
  EXPECT_THAT(savings_json(view, true), HasSubstr("\nneeded: 28\n"));
}

TEST(Savings, DoesNotDependOnTheOrderOfObjects) {
  GpuCluster cluster;
  fill_gpu_cluster(cluster);
  const std::string once = savings({.output = "json"}, cluster).out;
  cluster.reverse();
  EXPECT_EQ(savings({.output = "json"}, cluster).out, once);
}

TEST(Savings, WithoutMeasurementsEveryPodStaysWhole) {
  GpuCluster cluster;
  fill_small(cluster);
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(run_savings({.cluster = {.file = cluster.write()}}, out, err, {}), 0);
  EXPECT_THAT(out.str(), StartsWith("The pods on your 4 GPUs need all of them"));
  EXPECT_THAT(out.str(), HasSubstr("Pass --prometheus URL"));
}

TEST(Savings, AnswersForClustersWithoutGpusOrPods) {
  GpuCluster none;
  none.node("cpu", {.gpus = 0, .model = "", .memory_mib = 0});
  EXPECT_THAT(savings({}, none).out, StartsWith("There are no whole GPUs in this cluster"));
  GpuCluster empty;
  empty.node("a", {.gpus = 2});
  EXPECT_THAT(savings({}, empty).out, StartsWith("No pod holds a GPU. All 2 GPUs are unallocated."));
}

TEST(Savings, ReportsContradictoryClusters) {
  GpuCluster cluster;
  cluster.node("a", {.gpus = 1});
  cluster.node("broken", {.gpus = 4, .allocatable = 3});
  cluster.pod("ml/p0", "a", {.gpus = 2});
  cluster.pod("ml/p1", "gone", {});
  const Outcome outcome = savings({}, cluster);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("pod ml/p0 is not counted: node a has no room for its GPUs"));
  EXPECT_THAT(outcome.err, HasSubstr("pod ml/p1 is not counted: its node gone has no GPUs or was not read"));
  EXPECT_THAT(outcome.err, HasSubstr("node broken: 1 of its 4 GPUs cannot be allocated"));
}

TEST(Savings, EscapesHostileNames) {
  GpuCluster cluster;
  const std::string evil = "x\"><script>alert(1)</script>|*\n\x1b[31m";
  cluster.node("a", {.gpus = 2, .model = evil, .pool = evil});
  cluster.pod("ml/" + evil, "a", {.gpus = 2});
  const std::string svg = savings({.output = "svg"}, cluster).out;
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("\x1b")));
  const std::string md = savings({.output = "md"}, cluster).out;
  for (std::size_t at = md.find('<'); at != std::string::npos; at = md.find('<', at + 1)) {
    EXPECT_EQ(md[at - 1], '\\') << md.substr(at, 20);
  }
  EXPECT_THAT(md, HasSubstr("\\<script\\>"));
  EXPECT_THAT(md, Not(HasSubstr("\x1b")));
  const std::string text = savings({}, cluster).out;
  EXPECT_THAT(text, HasSubstr("\\u000a\\u001b[31m"));
  EXPECT_THAT(savings({.output = "json"}, cluster).out, Not(HasSubstr("\x1b")));
}

TEST(SavingsOptions, RejectInvalidValues) {
  for (const char* price : {"-1", "nan", "inf", "1e3", "A100=", "=3", "A100=x", "1,2", "9999999"}) {
    EXPECT_FALSE(parse_prices(price)) << price;
  }
  EXPECT_EQ(parse_prices("A100=3.1, T4=0.4, 2")->find("NVIDIA-A100-SXM4-80GB"), 3.1);
  EXPECT_EQ(parse_prices("A100=3.1,2")->find("H100"), 2);
  EXPECT_EQ(parse_prices("A100=3.1")->find("NVIDIA-A10"), std::nullopt);
  for (const char* memory : {"0", "24", "T4=0", "T4=15GB", "GiB"}) {
    EXPECT_FALSE(parse_gpu_memory(memory)) << memory;
  }
  EXPECT_EQ(parse_gpu_memory("T4=15GiB")->find("Tesla T4"), 15360);
  for (const char* policy : {"", "ring", "binpack,x"}) {
    EXPECT_FALSE(parse_share_policies(policy)) << policy;
  }
  for (const char* age : {"", "h", "1", "-1h", "0h", "1x", "99999999999999999h"}) {
    EXPECT_FALSE(parse_duration_s(age)) << age;
  }
  EXPECT_EQ(parse_duration_s("1d12h"), 129600);
  EXPECT_EQ(parse_duration_s("0"), 0);
  for (const char* statistic : {"", "p", "p0", "p100", "max", "pnan", "p1e1"}) {
    EXPECT_FALSE(Statistic::parse(statistic)) << statistic;
  }
}

}  // namespace
}  // namespace tessera::cli
