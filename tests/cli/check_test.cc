#include "cli/diagnose/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <sstream>

#include "base/json_reader.h"
#include "golden.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Outcome check(CheckOptions options, const SavedCluster& cluster) {
  std::ostringstream out;
  std::ostringstream err;
  options.cluster.file = cluster.write();
  const int code = run_check(options, out, err, {});
  return {code, out.str(), err.str()};
}

std::vector<std::string> kinds(const SavedCluster& cluster) {
  const Outcome outcome = check({.output = "json"}, cluster);
  if (outcome.code == 1) {
    return {outcome.err};
  }
  const boost::json::value report = *parse_json(outcome.out);
  std::vector<std::string> found;
  for (const auto& finding : report.at("findings").as_array()) {
    found.emplace_back(finding.at("kind").as_string());
  }
  return found;
}

TEST(Check, FindsNothingInAConsistentCluster) {
  SavedCluster cluster;
  cluster.node("gpu-a", inventory_of("a", 2, 16384));
  cluster.pod("ml", "x", "gpu-a", {.units = 4, .annotations = record(share_record({{"GPU-a-0", 4}}))});
  cluster.pod(
      "ml", "waits", "",
      {.units = 4, .phase = "Pending", .scheduler = "tessera-scheduler", .scheduling_attempted = true});
  cluster.placer("tessera-scheduler-0");
  const Outcome outcome = check({}, cluster);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "1 node with 2 GPUs, 1 pod on them\nNo problems found.\n");
}

TEST(Check, ReportsEveryKindOfProblem) {
  SavedCluster cluster;
  cluster.placer("tessera-scheduler-0");
  alloc::Inventory unhealthy = inventory_of("a", 2, 16384);
  unhealthy.gpus[1].unhealthy = "XID 79";
  cluster.node("gpu-a", unhealthy);
  cluster.plain_node("labelled", {.labels = {{"gpushare", "true"}}});
  cluster.plain_node("old", {.units = 30, .gpus = 2});
  cluster.pod("ml", "over-1", "gpu-a", {.units = 10, .annotations = record(share_record({{"GPU-a-0", 10}}))});
  cluster.pod("ml", "over-2", "gpu-a", {.units = 10, .annotations = record(share_record({{"GPU-a-0", 10}}))});
  cluster.pod("ml", "train", "gpu-a", {.units = 1, .annotations = record(share_record({{"GPU-a-1", 1}}))});
  cluster.pod("ml", "lost", "gpu-a", {.units = 1, .annotations = record(share_record({{"GPU-gone", 1}}))});
  cluster.pod("ml", "stray", "gpu-a", {.units = 1});
  cluster.pod("ml", "ghost", "gone", {.units = 1, .annotations = record(share_record({{"GPU-x", 1}}))});
  const Outcome outcome = check({}, cluster);
  EXPECT_EQ(outcome.code, kFoundProblems);
  expect_golden("check.txt", outcome.out);
}

TEST(Check, ComparesTheNodesCapacityWithTheInventory) {
  SavedCluster cluster;
  cluster.placer("tessera-scheduler-0");
  cluster.node_with_inventory_text("gpu-a", inventory_of("a", 2, 16384).json(), 31, 2);
  EXPECT_THAT(kinds(cluster), ElementsAre("capacity_differs"));
  EXPECT_THAT(check({}, cluster).out,
              HasSubstr("node gpu-a: aliyun.com/gpu-mem is 31 but its inventory says 32 on 2 GPUs"));
}

TEST(Check, FindsAnotherPluginThatServesTheSameGpus) {
  SavedCluster cluster;
  cluster.placer("tessera-scheduler-0");
  alloc::Inventory inventory = inventory_of("a", 2, 16384);
  inventory.also_served_as = {"example.com/gpu"};
  cluster.node("gpu-a", inventory);
  EXPECT_THAT(kinds(cluster), ElementsAre("second_plugin"));
  EXPECT_THAT(check({}, cluster).out,
              HasSubstr("another device plugin allocates the same GPUs as example.com/gpu"));
}

TEST(Check, FindsNodesWithAnotherUnit) {
  SavedCluster cluster;
  cluster.placer("tessera-scheduler-0");
  cluster.node("a", inventory_of("a", 1, 16384));
  cluster.node("b", inventory_of("b", 1, 16384));
  alloc::Inventory other = inventory_of("c", 1, 16384);
  other.unit = alloc::Unit::mib();
  cluster.node("c", other);
  EXPECT_THAT(kinds(cluster), ElementsAre("unit_differs"));
}

TEST(Check, FindsUnreadableInventoriesAndRecords) {
  SavedCluster cluster;
  cluster.placer("tessera-scheduler-0");
  cluster.node("a", inventory_of("a", 2, 16384));
  cluster.node_with_inventory_text("b", "{", 32, 2);
  cluster.pod("ml", "bad", "a", {.units = 1, .annotations = record("{")});
  EXPECT_THAT(kinds(cluster), ElementsAre("unreadable_inventory", "unreadable_record"));
}

TEST(Check, ReportsOnlyTheGivenNodes) {
  SavedCluster cluster;
  cluster.node("a", inventory_of("a", 2, 16384));
  cluster.node_with_inventory_text("b", "{", 32, 2);
  EXPECT_EQ(check({.nodes = {"a"}}, cluster).code, 0);
  EXPECT_EQ(check({.nodes = {"b"}}, cluster).code, kFoundProblems);
  const Outcome missing = check({.nodes = {"z"}}, cluster);
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("node z does not exist"));
}

TEST(Check, IsACommandOfTessera) {
  SavedCluster cluster;
  cluster.node("a", inventory_of("a", 2, 16384));
  EXPECT_EQ(run_in_pipe("tessera", {"check", "--file", cluster.write()}).code, 0);
  EXPECT_EQ(run_in_pipe("tessera", {"check", "--file", "/nowhere"}).code, 1);
}

TEST(Check, ComparesTheRecordsWithTheAllocationsOfTheAgents) {
  SavedCluster saved;
  saved.node("gpu-a", inventory_of("a", 4, 32768));
  saved.pod("ml", "infer", "gpu-a", {.units = 8, .annotations = record(share_record({{"GPU-a-1", 8}}))});
  saved.placer("tessera-scheduler-0");
  ClusterQuery query;
  query.details = true;
  const auto cluster = read_cluster({.file = saved.write()}, query);
  ASSERT_TRUE(cluster);
  const std::string uid = cluster->pods.front().uid;
  const auto findings = [&](const std::string& gpu, const std::string& more) {
    const std::string page =
        R"({"node":"gpu-a","unit":"GiB","allocations":[{"namespace":"ml","pod":"infer","uid":")" + uid +
        R"(","container":"main","gpus":[{"uuid":")" + gpu + R"(","mem":8}],"ids":{})" + more + "}]}";
    std::vector<std::string> kinds;
    for (const Finding& one :
         check_cluster(*cluster, alloc::Unit::gib(), {.allocations = {{.node = "gpu-a", .body = page}}})
             .findings) {
      kinds.push_back(one.kind);
    }
    return kinds;
  };
  EXPECT_THAT(findings("GPU-a-1", ""), ElementsAre());
  EXPECT_THAT(findings("GPU-a-2", ""), ElementsAre("given_elsewhere"));
  EXPECT_THAT(findings("GPU-a-1", R"(,"held":"GPU 1 is unhealthy")"), ElementsAre("held"));
  const auto silent =
      check_cluster(*cluster, alloc::Unit::gib(),
                    {.allocations = {{.node = "gpu-a", .body = fail(ErrorCode::kDenied, "forbidden")},
                                     {.node = "gpu-b", .body = "no JSON"}}});
  ASSERT_EQ(silent.findings.size(), 2U);
  EXPECT_EQ(silent.findings.front().kind, "agent_silent");
  EXPECT_FALSE(silent.findings.front().serious);
}

TEST(Check, NamesTheNodeIfTheAgentDoesNotKnowThePodYet) {
  const std::string page =
      R"({"node":"gpu-a","unit":"GiB","allocations":[{"namespace":"","pod":"","uid":"","container":"",)"
      R"("gpus":[],"ids":{},"held":"which pod these GPU devices belong to is not known yet"}]})";
  const CheckReport report =
      check_cluster({}, alloc::Unit::gib(), {.allocations = {{.node = "gpu-a", .body = page}}});
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].kind, "held");
  EXPECT_EQ(report.findings[0].pod, "");
  EXPECT_EQ(report.findings[0].text,
            "node gpu-a: a container whose pod is not known yet may not start: which pod these GPU devices "
            "belong to is not known yet");
}

TEST(Check, ReportsAgentsWithTheSameErrorTogether) {
  CheckAnswers answers;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = std::to_string(i);
    answers.allocations.push_back(
        {.node = "gpu-" + name,
         .body = fail(ErrorCode::kDenied, "pods \"agent-" + name + "\" is forbidden")});
  }
  const CheckReport report = check_cluster({}, alloc::Unit::gib(), answers);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].text,
            "node gpu-0 and 999 more: cannot read the allocations of their agents: pods \"agent-0\" is "
            "forbidden");
  const CheckReport one = check_cluster({}, alloc::Unit::gib(), answers, {"gpu-7"});
  ASSERT_EQ(one.findings.size(), 1U);
  EXPECT_THAT(one.findings[0].text, HasSubstr("node gpu-7: cannot read the allocations of its agent"));
}

TEST(Check, CountsOnlyTheGivenNodes) {
  SavedCluster cluster;
  cluster.placer("tessera-scheduler-0");
  cluster.node("gpu-a", inventory_of("a", 2, 16384));
  cluster.node("gpu-b", inventory_of("b", 1, 16384));
  cluster.pod("ml", "x", "gpu-a", {.units = 4, .annotations = record(share_record({{"GPU-a-0", 4}}))});
  EXPECT_EQ(check({}, cluster).out, "2 nodes with 3 GPUs, 1 pod on them\nNo problems found.\n");
  EXPECT_EQ(check({.nodes = {"gpu-b"}}, cluster).out,
            "1 node with 1 GPU, 0 pods on them\nNo problems found.\n");
}

}  // namespace
}  // namespace tessera::cli
