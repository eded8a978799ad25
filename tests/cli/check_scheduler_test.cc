#include "cli/diagnose/check_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/version.h"
#include "golden.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Cluster read(const SavedCluster& saved) {
  ClusterQuery query;
  query.details = true;
  auto cluster = read_cluster({.file = saved.write()}, query);
  EXPECT_TRUE(cluster) << cluster.error().text();
  return *std::move(cluster);
}

std::vector<Finding> findings(const SavedCluster& saved) {
  return check_schedulers(read(saved), Clock::real().wall());
}

std::vector<std::string> kinds(const std::vector<Finding>& found) {
  std::vector<std::string> all;
  for (const Finding& one : found) {
    all.push_back((one.serious ? "" : "note ") + one.kind);
  }
  return all;
}

void gpu_node(SavedCluster& cluster) {
  cluster.node("gpu-a", inventory_of("a", 2, 16384));
}

const SavedPod kPlaced{
    .units = 4, .annotations = record(share_record({{"GPU-a-0", 4}})), .scheduler = "tessera-scheduler"};

TEST(CheckSchedulers, FindNothingIfTesseraSchedulesThePods) {
  SavedCluster cluster;
  gpu_node(cluster);
  cluster.placer("tessera-scheduler-0");
  cluster.placer("tessera-scheduler-1");
  cluster.pod("ml", "x", "gpu-a", kPlaced);
  cluster.pod(
      "ml", "waits", "",
      {.units = 4, .phase = "Pending", .scheduler = "tessera-scheduler", .scheduling_attempted = true});
  EXPECT_THAT(findings(cluster), IsEmpty());
}

TEST(CheckSchedulers, ReportAMissingScheduler) {
  SavedCluster cluster;
  gpu_node(cluster);
  cluster.pod("ml", "x", "gpu-a", kPlaced);
  EXPECT_THAT(kinds(findings(cluster)), ElementsAre("note no_scheduler"));
  cluster.pod(
      "ml", "waits", "",
      {.units = 4, .phase = "Pending", .scheduler = "tessera-scheduler", .scheduling_attempted = true});
  EXPECT_THAT(kinds(findings(cluster)), ElementsAre("no_scheduler"));
}

TEST(CheckSchedulers, IgnoreClustersWithOnlyTheOriginalPlugin) {
  SavedCluster cluster;
  cluster.plain_node("old", {.units = 32, .gpus = 2});
  cluster.pod(
      "ml", "x", "old",
      {.units = 4, .annotations = {{"ALIYUN_COM_GPU_MEM_IDX", "0"}}, .scheduler = "default-scheduler"});
  EXPECT_THAT(findings(cluster), IsEmpty());
}

TEST(CheckSchedulers, NameASchedulerThatIsDown) {
  SavedCluster cluster;
  gpu_node(cluster);
  cluster.placer("tessera-scheduler-0", {.ready = false});
  const auto found = findings(cluster);
  ASSERT_THAT(kinds(found), ElementsAre("scheduler_down"));
  EXPECT_THAT(found.front().text, HasSubstr("kubectl -n tessera-system describe pod tessera-scheduler-0"));
}

TEST(CheckSchedulers, ExpectOneLeaderBehindAService) {
  for (const int leaders : {0, 1, 2}) {
    SavedCluster cluster;
    gpu_node(cluster);
    cluster.placer("e-0", {.component = "extender", .leads = leaders > 0});
    cluster.placer("e-1", {.component = "extender", .leads = leaders > 1});
    const std::vector<std::string> expected(leaders == 1 ? 0 : 1, "no_leader");
    EXPECT_EQ(kinds(findings(cluster)), expected) << leaders;
  }
}

TEST(CheckSchedulers, NameSchedulersThatPlacePodsWithoutTessera) {
  SavedCluster cluster;
  gpu_node(cluster);
  cluster.node("one-gpu", inventory_of("o", 1, 16384));
  cluster.placer("tessera-scheduler-0");
  cluster.pod("ml", "x", "gpu-a", kPlaced);
  for (const char* name : {"a", "b", "c", "d"}) {
    cluster.pod("ml", name, "gpu-a", {.units = 1, .scheduler = "default-scheduler"});
  }
  // The agent will serve this pod, because the node has only one GPU. On another node it would not.
  cluster.pod("ml", "single", "one-gpu", {.units = 1, .scheduler = "volcano"});
  const auto found = findings(cluster);
  ASSERT_THAT(kinds(found), ElementsAre("not_wired", "not_wired"));
  EXPECT_EQ(found[0].text,
            "scheduler default-scheduler (or a client that set nodeName) placed pods ml/a, ml/b, ml/c and 1 "
            "more without calling Tessera; create them again with schedulerName: tessera-scheduler");
  EXPECT_THAT(found[1].text,
              HasSubstr("scheduler volcano (or a client that set nodeName) placed pod ml/single without"));
}

TEST(CheckSchedulers, IgnorePodsThatRequestZeroGpus) {
  SavedCluster cluster;
  gpu_node(cluster);
  cluster.placer("tessera-scheduler-0");
  cluster.pod("ml", "a", "gpu-a", {.scheduler = "default-scheduler", .zero_limits = true});
  cluster.pod("ml", "b", "", {.phase = "Pending", .scheduler = "unknown", .zero_limits = true});
  EXPECT_THAT(findings(cluster), IsEmpty());
}

TEST(CheckSchedulers, ReportTesserasSchedulerWithoutTheExtender) {
  SavedCluster cluster;
  gpu_node(cluster);
  cluster.placer("tessera-scheduler-0");
  cluster.pod("ml", "a", "gpu-a", {.units = 1, .scheduler = "tessera-scheduler"});
  const auto found = findings(cluster);
  ASSERT_THAT(kinds(found), ElementsAre("not_wired"));
  EXPECT_THAT(found.front().text, HasSubstr("its configuration lacks the extender"));
}

TEST(CheckSchedulers, FindPodsThatNoSchedulerTries) {
  SavedCluster cluster;
  gpu_node(cluster);
  cluster.placer("tessera-scheduler-0");
  cluster.pod("ml", "typo", "", {.units = 1, .phase = "Pending", .scheduler = "tesera-scheduler"});
  cluster.pod("ml", "slow", "", {.units = 1, .phase = "Pending", .scheduler = "tessera-scheduler"});
  cluster.pod("ml", "new", "",
              {.units = 1,
               .phase = "Pending",
               .scheduler = "tessera-scheduler",
               .created = rfc3339_seconds(Clock::real().wall())});
  cluster.pod("ml", "gated", "",
              {.units = 1, .phase = "Pending", .scheduler = "unknown", .gates = {"queue"}});
  cluster.pod("ml", "no-gpus", "", {.phase = "Pending", .scheduler = "unknown"});
  const auto found = findings(cluster);
  ASSERT_THAT(kinds(found), ElementsAre("unserved", "unserved"));
  EXPECT_EQ(found[0].text,
            "pod ml/typo names the scheduler tesera-scheduler, but no scheduler has tried to place it; no "
            "scheduler has that name: create it again with schedulerName: tessera-scheduler");
  EXPECT_THAT(found[1].text, HasSubstr("pod ml/slow names the scheduler tessera-scheduler"));
  EXPECT_THAT(found[1].text, HasSubstr("see the logs of that scheduler"));
}

TEST(CheckSchedulers, FindPodsOfASchedulerThatDoesNotCallTessera) {
  SavedCluster cluster;
  gpu_node(cluster);
  cluster.placer("s-0", {.scheduler_name = "gpus"});
  cluster.pod(
      "ml", "x", "",
      {.units = 1, .phase = "Pending", .scheduler = "default-scheduler", .scheduling_attempted = true});
  cluster.pod("ml", "y", "",
              {.units = 1, .phase = "Pending", .scheduler = "gpus", .scheduling_attempted = true});
  const auto found = findings(cluster);
  ASSERT_THAT(kinds(found), ElementsAre("other_scheduler"));
  EXPECT_EQ(found.front().text,
            "pod ml/x waits for the scheduler default-scheduler, which does not call Tessera; create it "
            "again with schedulerName: gpus");
}

// Adds a pod of default-scheduler with a record. An agent writes one on a node with a single GPU,
// and pods keep theirs from the time when the cluster's own kube-scheduler called Tessera.
void records_of_default_scheduler(SavedCluster& cluster) {
  cluster.node("one-gpu", inventory_of("o", 1, 16384));
  cluster.pod(
      "ml", "placed", "one-gpu",
      {.units = 4, .annotations = record(share_record({{"GPU-o-0", 4}})), .scheduler = "default-scheduler"});
  cluster.pod(
      "ml", "x", "",
      {.units = 1, .phase = "Pending", .scheduler = "default-scheduler", .scheduling_attempted = true});
}

TEST(CheckSchedulers, IgnoreRecordsIfTesserasPodsNameTheirScheduler) {
  SavedCluster cluster;
  gpu_node(cluster);
  cluster.placer("tessera-scheduler-0");
  records_of_default_scheduler(cluster);
  const auto found = findings(cluster);
  ASSERT_THAT(kinds(found), ElementsAre("other_scheduler"));
  EXPECT_THAT(found.front().text, HasSubstr("create it again with schedulerName: tessera-scheduler"));
}

TEST(CheckSchedulers, UseRecordsIfNothingElseNamesTheScheduler) {
  const std::vector<std::vector<SavedPlacer>> attached = {
      {},                        // installed without the chart
      {{.scheduler_name = ""}},  // a chart that does not state the name
      {{.component = "extender", .leads = true}},
      {{}, {.component = "extender"}},  // while `attach` is changed
  };
  for (const std::vector<SavedPlacer>& placers : attached) {
    SavedCluster cluster;
    gpu_node(cluster);
    for (std::size_t i = 0; i < placers.size(); ++i) {
      cluster.placer("placer-" + std::to_string(i), placers[i]);
    }
    records_of_default_scheduler(cluster);
    EXPECT_THAT(kinds(findings(cluster)), Not(Contains("other_scheduler"))) << placers.size();
  }
}

TEST(CheckSchedulers, AreInTheReport) {
  SavedCluster cluster;
  gpu_node(cluster);
  cluster.placer("tessera-scheduler-0", {.ready = false});
  cluster.pod("ml", "past", "gpu-a", {.units = 1, .scheduler = "default-scheduler"});
  cluster.pod("ml", "typo", "", {.units = 1, .phase = "Pending", .scheduler = "unknown"});
  std::ostringstream out;
  std::ostringstream err;
  CheckOptions options;
  options.cluster.file = cluster.write();
  EXPECT_EQ(run_check(options, out, err, {}), kFoundProblems) << err.str();
  expect_golden("check-scheduler.txt", out.str());
}

TEST(CheckLease, ReportsThatThereIsNoLeader) {
  const auto finding = [](Result<std::string> body) {
    CheckAnswers answers;
    answers.lease = "t/tessera-scheduler";
    answers.lease_body = std::move(body);
    answers.now = Clock::Wall(std::chrono::seconds(2'000'000'000));
    const auto found = check_lease(answers);
    return found ? found->text : "";
  };
  const auto lease = [](const std::string& holder, std::int64_t renewed) {
    return R"({"metadata":{"resourceVersion":"1"},"spec":{"leaseDurationSeconds":15,"holderIdentity":")" +
           holder + R"(","renewTime":")" + rfc3339_micros(Clock::Wall(std::chrono::seconds(renewed))) +
           R"("}})";
  };
  EXPECT_EQ(finding(lease("a", 2'000'000'000 - 50)), "");
  EXPECT_THAT(finding(lease("a", 2'000'000'000 - 90)),
              HasSubstr("t/tessera-scheduler was last renewed 90 s ago"));
  EXPECT_THAT(finding(lease("", 2'000'000'000)), HasSubstr("has no holder"));
  EXPECT_THAT(finding(fail(ErrorCode::kNotFound, "gone")), HasSubstr("does not exist"));
  EXPECT_EQ(finding(fail(ErrorCode::kDenied, "forbidden")), "") << "without permission there is no finding";
  EXPECT_FALSE(check_lease({}));
}

TEST(CheckLease, UsesTheLeaseNamesOfTheChart) {
  SavedCluster cluster;
  EXPECT_FALSE(lease_of(read(cluster)));
  cluster.placer("s-0", {.scheduler_name = "gpus"});
  EXPECT_EQ(lease_of(read(cluster)), std::pair(std::string("tessera-system"), std::string("gpus")));
  SavedCluster behind_a_service;
  behind_a_service.placer("e-0", {.component = "extender"});
  EXPECT_EQ(lease_of(read(behind_a_service))->second, "tessera-extender");
}

TEST(CheckVersions, ReportsComponentsOfOtherVersions) {
  const std::string own(version());
  const auto answers = [](const std::string& placer, const std::string& agent) {
    return CheckAnswers{.agent_versions = {{.node = "gpu-a", .body = agent, .pod = "t/agent"}},
                        .placer_versions = {{.node = "m", .body = placer, .pod = "t/placer"}}};
  };
  EXPECT_THAT(check_versions({}), IsEmpty());
  EXPECT_THAT(check_versions(answers(own, own + "\n")), IsEmpty());
  const auto agent = check_versions(answers(own, "9.0.0"));
  ASSERT_EQ(agent.size(), 1U);
  EXPECT_FALSE(agent.front().serious);
  EXPECT_EQ(agent.front().node, "gpu-a");
  EXPECT_THAT(agent.front().text, HasSubstr("its agent has version 9.0.0"));
  const auto all = check_versions(answers("9.0.0", "9.0.0"));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_THAT(all.front().text, HasSubstr("this program has version " + own));
}

}  // namespace
}  // namespace tessera::cli
