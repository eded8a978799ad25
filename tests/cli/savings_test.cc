// Saved clusters whose answer is worked out by hand. A share is the measured memory times 1.2, plus
// 512 MiB, rounded up to GiB. A T4 of these tests has 16384 MiB; 512 of them are the driver's, which
// leaves 15 units.
#include "cli/savings/savings.h"

#include <gmock/gmock.h>

#include "kube/rfc3339.h"
#include "savings_run.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Savings, PutsPodsThatFitOnOneGpu) {
  GpuCluster cluster;
  fill_small(cluster);
  const Outcome outcome = savings({}, cluster);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("The pods on your 4 GPUs fit on 1.\n"));
  EXPECT_THAT(outcome.out, HasSubstr("so no node can be removed"));
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

// A pod with 71% fits below --max-utilization 90, but not on a shared GPU of at most 50%.
TEST(Savings, KeepsPodsWholeThatAreBusierThanASharedGpuMayBe) {
  GpuCluster cluster;
  cluster.node("a", {.gpus = 2});
  cluster.pod("ml/busy", "a", {.memory_mib = 100, .utilization = 71});
  cluster.pod("ml/calm", "a", {.memory_mib = 100, .utilization = 50});
  const SavingsOptions options{.max_utilization = 90, .gpu_utilization = 50};
  const SavingsReport report = report_of(options, cluster);
  EXPECT_EQ(reason_of(report, "ml/busy"), "too_busy");
  EXPECT_EQ(reason_of(report, "ml/calm"), "shares");
  const std::string text = savings(options, cluster).out;
  EXPECT_THAT(text, HasSubstr("uses more than 50% of its GPU's time"));
  EXPECT_THAT(text, HasSubstr("A pod may share if its mean utilization is at most 50%."));
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
  EXPECT_THAT(savings({.policies = "binpack,spread"}, cluster).out,
              HasSubstr("POLICY   NEEDED  IN RANDOM ORDERS  NODES FREED\n"
                        "binpack  1       1                 0\n"
                        "spread   4       4                 0\n"));
  EXPECT_THAT(savings({.policies = "spread,binpack"}, cluster).out,
              StartsWith("The pods on your 4 GPUs need all of them"));
}

TEST(Savings, DoesNotDependOnTheOrderOfObjects) {
  GpuCluster cluster;
  cluster.add_example();
  const std::string once = savings({.output = "json"}, cluster).out;
  cluster.reverse();
  EXPECT_EQ(savings({.output = "json"}, cluster).out, once);
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

TEST(SavingsOptions, RejectInvalidValues) {
  for (const char* price : {"-1", "nan", "inf", "1e3", "A100=", "=3", "A100=x", "1,2", "9999999", "",
                            "A100=3,A100=4", "A100=3,a100=3", "A100=3,,T4=1"}) {
    EXPECT_FALSE(parse_prices(price)) << price;
  }
  EXPECT_EQ(parse_prices("A100=3.1, T4=0.4, 2")->find("NVIDIA-A100-SXM4-80GB"), 3.1);
  EXPECT_EQ(parse_prices("A100=3.1,2")->find("H100"), 2);
  EXPECT_EQ(parse_prices("A100=3.1")->find("NVIDIA-A10"), std::nullopt);
  for (const char* memory : {"0", "24", "T4=0", "T4=15GB", "GiB", "", "T4=1GiB,T4=2GiB"}) {
    EXPECT_FALSE(parse_gpu_memory(memory)) << memory;
  }
  EXPECT_EQ(parse_gpu_memory("T4=15GiB")->find("Tesla T4"), 15360);
  for (const char* policy : {"", "ring", "binpack,x"}) {
    EXPECT_FALSE(parse_share_policies(policy)) << policy;
  }
  for (const char* age : {"", "h", "1", "-1h", "0h", "1x", "99999999999999999h"}) {
    EXPECT_FALSE(parse_duration_s(age)) << age;
  }
  EXPECT_FALSE(parse_currency(""));
  EXPECT_FALSE(parse_currency(" "));
  EXPECT_FALSE(check_namespaces({.namespaces = {"a", "b"}, .excluded_namespaces = {"b"}}));
  EXPECT_TRUE(check_namespaces({.namespaces = {"a"}, .excluded_namespaces = {"b"}}));
  EXPECT_EQ(parse_duration_s("1d12h"), 129600);
  EXPECT_EQ(parse_duration_s("0"), 0);
  for (const char* statistic : {"", "p", "p0", "p100", "max", "pnan", "p1e1"}) {
    EXPECT_FALSE(Statistic::parse(statistic)) << statistic;
  }
}

}  // namespace
}  // namespace tessera::cli
