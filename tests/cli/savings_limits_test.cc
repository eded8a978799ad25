// Limits that keep pods of a savings plan apart: CPU and memory of the nodes, and constraints of
// pods. The answers are worked out by hand, as in savings_test.cc.
#include <gmock/gmock.h>

#include <algorithm>
#include <boost/json.hpp>

#include "savings_run.h"

namespace tessera::cli {
namespace {

using ::testing::IsEmpty;

// 512 * 1.2 = 614.4 MiB are one unit, so a GPU has room for all eight pods. But each pod requests 8
// CPUs. Of the 40 CPUs of a node, a pod without GPUs takes 8 on node a, and 4 GPU pods take the rest
// there. Node b has room for 5. So both nodes are needed, with one shared GPU each.
TEST(SavingsLimits, CountsTheCpuOfTheNodes) {
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
TEST(SavingsLimits, FallsBackToWholeGpusWhereSharesFindNoRoom) {
  GpuCluster cluster;
  cluster.node("a", {.gpus = 1, .cpu = "4"});
  cluster.node("b", {.gpus = 1, .cpu = "2"});
  cluster.pod("ml/many-cpus", "a", {.cpu = "4", .memory_mib = 100, .utilization = 1});
  cluster.pod("ml/much-memory", "b", {.cpu = "2", .memory_mib = 5000, .utilization = 1});
  const SavingsReport report = report_of({}, cluster);
  EXPECT_EQ(report.needed, 2);
  EXPECT_EQ(reason_of(report, "ml/many-cpus"), "no_room");
  EXPECT_EQ(reason_of(report, "ml/much-memory"), "shares");
  EXPECT_EQ(report.groups[0].at_least, 1);  // another placement might have room
  EXPECT_THAT(report.warnings, IsEmpty());
}

using Limits = std::vector<Alone>;

Limits alone_of(const SavingsReport& report, const std::string& pod) {
  const auto found =
      std::ranges::find_if(report.pods, [&](const SavingsPod& one) { return one.text() == pod; });
  return found == report.pods.end() ? Limits{} : found->alone;
}

// Two nodes with one GPU and one small pod each; `change` makes something stop them from sharing.
template <class Change>
SavingsReport alone_because(Change change, const SavingsOptions& options = {}) {
  GpuNode node{.gpus = 1, .cpu = "4", .memory = "16Gi"};
  GpuPod pod{.cpu = "1", .memory = "1Gi", .memory_mib = 1000, .utilization = 1};
  change(node, pod);
  GpuCluster cluster;
  cluster.node("a", node);
  cluster.node("b", node);
  cluster.pod("ml/p0", "a", pod);
  cluster.pod("ml/p1", "b", pod);
  return report_of(options, cluster);
}

TEST(SavingsLimits, NamesTheLimitThatLeavesAPodAlone) {
  EXPECT_EQ(alone_because([](GpuNode&, GpuPod&) {}).needed, 1);
  const SavingsReport cpu = alone_because([](GpuNode&, GpuPod& pod) { pod.cpu = "3"; });
  EXPECT_EQ(cpu.needed, 2);
  EXPECT_EQ(cpu.groups[0].alone, 2);
  EXPECT_EQ(cpu.groups[0].shared, 0);
  EXPECT_EQ(cpu.groups[0].at_least, 1);
  EXPECT_EQ(alone_of(cpu, "ml/p0"), Limits{Alone::kCpu});
  EXPECT_EQ(alone_of(cpu, "ml/p1"), Limits{Alone::kCpu});
  const auto host = alone_because([](GpuNode&, GpuPod& pod) { pod.memory = "9Gi"; });
  EXPECT_EQ(alone_of(host, "ml/p0"), Limits{Alone::kHostMemory});
  const auto memory = alone_because([](GpuNode&, GpuPod& pod) { pod.memory_mib = 8000; });
  EXPECT_EQ(alone_of(memory, "ml/p0"), Limits{Alone::kMemory});
  const auto busy = alone_because([](GpuNode&, GpuPod& pod) { pod.utilization = 45; });
  EXPECT_EQ(alone_of(busy, "ml/p0"), Limits{Alone::kUtilization});
  const auto both = alone_because([](GpuNode&, GpuPod& pod) {
    pod.memory_mib = 8000;
    pod.cpu = "3";
  });
  EXPECT_EQ(alone_of(both, "ml/p0"), (Limits{Alone::kMemory, Alone::kCpu}));
  const auto tied = alone_because([](GpuNode& node, GpuPod&) { node.cordoned = true; });
  EXPECT_EQ(alone_of(tied, "ml/p0"), Limits{Alone::kConstraints});
  const auto spread = alone_because([](GpuNode&, GpuPod&) {}, {.policies = "spread"});
  EXPECT_EQ(alone_of(spread, "ml/p0"), Limits{Alone::kPolicy});
}

TEST(SavingsLimits, NamesAPodWithoutPartners) {
  GpuCluster cluster;
  cluster.node("a", {.gpus = 2});
  cluster.pod("ml/only", "a", {.memory_mib = 1000, .utilization = 1});
  cluster.pod("ml/busy", "a", {.memory_mib = 1000, .utilization = 99});
  const SavingsReport report = report_of({}, cluster);
  EXPECT_EQ(alone_of(report, "ml/only"), Limits{Alone::kNoPartner});
  EXPECT_THAT(alone_of(report, "ml/busy"), IsEmpty());
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

TEST(SavingsLimits, KeepsTheConstraintsOfPods) {
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

}  // namespace
}  // namespace tessera::cli
