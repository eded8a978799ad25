// The main reason of each pod in the list of `tessera why`, and its layout on a narrow terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <sstream>

#include "base/json_reader.h"
#include "cli/diagnose/check.h"
#include "cli/diagnose/why.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string list(const SavedCluster& cluster, const std::string& output = "text",
                 const Terminal& terminal = {}) {
  WhyOptions options{.output = output};
  options.cluster = {.file = cluster.write(), .all_namespaces = true};
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(run_why(options, out, err, terminal), 0) << err.str();
  return out.str();
}

// Returns the reason of a pod in the JSON list; "" if it is not in the list.
std::string reason_of(const SavedCluster& cluster, const std::string& pod) {
  const auto document = parse_json(list(cluster, "json"));
  EXPECT_TRUE(document);
  for (const auto& item : document->at("items").as_array()) {
    if (item.at("pod").as_string() == pod) {
      return std::string(item.at("reason").as_string());
    }
  }
  return "";
}

// Two nodes with GPUs of 16 GiB, and Tessera's scheduler.
struct Cluster16 : SavedCluster {
  Cluster16() {
    placer("tessera-scheduler-0");
    node("gpu-a", inventory_of("a", 2, 16384));
    node("gpu-b", inventory_of("b", 1, 16384, "Tesla T4"));
  }
  // Adds a pod that the scheduler has not tried to place yet.
  void fresh(const std::string& name, SavedPod pod) {
    pod.phase = "Pending";
    pod.scheduler = "tessera-scheduler";
    this->pod("ml", name, "", pod);
  }
};

TEST(WhyList, PrefersAnInvalidRequestToAnObstacle) {
  Cluster16 cluster;
  cluster.fresh("gi", {.other_limits = {{"aliyun.com/gpu-mem", "3Gi"}}});
  cluster.fresh("policy", {.units = 3, .annotations = {{"tessera.io/policy", "binpak"}}});
  cluster.fresh("gated", {.gates = {"queue"}, .other_limits = {{"aliyun.com/gpu-mem", "3Gi"}}});
  cluster.fresh("valid", {.units = 3});
  EXPECT_THAT(reason_of(cluster, "ml/gi"),
              AllOf(HasSubstr("its request is invalid: "), HasSubstr("write 3")));
  EXPECT_THAT(reason_of(cluster, "ml/policy"),
              AllOf(HasSubstr("its request is invalid: "), HasSubstr("did you mean binpack?")));
  EXPECT_THAT(reason_of(cluster, "ml/gated"), HasSubstr("its request is invalid: "));
  EXPECT_THAT(reason_of(cluster, "ml/valid"), HasSubstr("has not tried to place it yet"));
  EXPECT_THAT(list(cluster), HasSubstr("write 3"));
}

TEST(WhyList, PrefersARequestThatNoNodeCouldEverSatisfyToAnObstacle) {
  Cluster16 cluster;
  cluster.plain_node("cpu", {});
  cluster.fresh("large", {.units = 17});
  cluster.fresh("many", {.whole = 3});
  cluster.fresh("model", {.units = 3, .annotations = {{"tessera.io/gpu-model", "H100"}}});
  EXPECT_EQ(reason_of(cluster, "ml/large"), "no node can ever fit it: no GPU is as large as 17GiB");
  EXPECT_EQ(reason_of(cluster, "ml/many"), "no node can ever fit it: fewer than 3 GPUs");
  EXPECT_EQ(reason_of(cluster, "ml/model"),
            "no node can ever fit it: the pod's annotations allow none of the node's GPUs");
  cluster.node("gpu-c", inventory_of("c", 4, 32768));
  EXPECT_THAT(reason_of(cluster, "ml/large"), HasSubstr("has not tried to place it yet"));
}

TEST(WhyList, HasPodsThatWaitForAResourceThatNoNodeOffers) {
  Cluster16 cluster;
  cluster.plain_node("other", {.other_capacity = {{"amd.com/gpu", "8"}}});
  cluster.fresh("nvidia", {.other_limits = {{"nvidia.com/gpu", "1"}}});
  cluster.fresh("typo", {.other_limits = {{"aliyun.com/gpumem", "3"}}});
  cluster.fresh("both", {.units = 3, .other_limits = {{"aliyun.com/gpumem", "3"}}});
  cluster.fresh("amd", {.other_limits = {{"amd.com/gpu", "1"}}});
  cluster.fresh("none", {.other_limits = {{"nvidia.com/gpu", "0"}}});
  cluster.pod("ml", "placed", "other", {.other_limits = {{"nvidia.com/gpu", "1"}}});
  const std::string typo = "\"aliyun.com/gpumem\" is offered by no node: did you mean aliyun.com/gpu-mem?";
  EXPECT_EQ(reason_of(cluster, "ml/nvidia"),
            "\"nvidia.com/gpu\" is offered by no node: did you mean aliyun.com/gpu?");
  EXPECT_EQ(reason_of(cluster, "ml/typo"), typo);
  EXPECT_EQ(reason_of(cluster, "ml/both"), typo);
  EXPECT_EQ(parse_json(list(cluster, "json"))->at("waiting"), 3);
  EXPECT_THAT(list(cluster), AllOf(HasSubstr(typo), Not(HasSubstr("ml         amd")),
                                   Not(HasSubstr("ml         none")), Not(HasSubstr("ml         placed"))));
}

TEST(WhyList, CountsSuchPodsOfOtherNamespaces) {
  Cluster16 cluster;
  cluster.fresh("nvidia", {.other_limits = {{"nvidia.com/gpu", "1"}}});
  std::ostringstream out;
  WhyOptions options;
  options.cluster = {.file = cluster.write(), .namespace_name = "web"};
  EXPECT_EQ(run_why(options, out, out, {}), 0);
  EXPECT_THAT(out.str(), HasSubstr("1 pod waits in other namespaces; -A lists them.\n"));
}

TEST(WhyList, NamesEveryPodOnANarrowTerminal) {
  Cluster16 cluster;
  for (const char* name : {"train-1", "train-2"}) {
    cluster.pod("ml", name, "", {.units = 17, .phase = "Pending"});
  }
  const std::string text = list(cluster, "text", {.is_terminal = true, .rows = 24, .columns = 40});
  EXPECT_EQ(text,
            "NAMESPACE  POD      WAITS BECAUSE\n"
            "ml         train-1  no node can ever fit\n"
            "                    it: no GPU is as\n"
            "                    large as 17GiB\n"
            "ml         train-2  no node can ever fit\n"
            "                    it: no GPU is as\n"
            "                    large as 17GiB\n"
            "\"tessera why POD\" explains one of them\n"
            "in detail.\n");
}

TEST(WhyList, HasTheWidthOfTheVariableColumns) {
  Cluster16 cluster;
  cluster.pod("ml", "train-1", "", {.units = 17, .phase = "Pending"});
  const std::vector<std::string> line = {"why", "-A", "--file", cluster.write()};
  EXPECT_THAT(run_in_pipe("tessera", line).out, HasSubstr("no node can ever fit it: no GPU is as large"));
  EXPECT_THAT(run_in_pipe("tessera", line, {{"COLUMNS", "40"}}).out,
              HasSubstr("ml         train-1  no node can ever fit\n"));
  EXPECT_THAT(run_on_terminal("tessera", line, {{"COLUMNS", "40"}}).out,
              HasSubstr("ml         train-1  no node can ever fit\n"));
  EXPECT_THAT(run_in_pipe("tessera", line, {{"COLUMNS", "wide"}}).out,
              HasSubstr("no node can ever fit it: no GPU is as large"));
}

TEST(Why, SuggestsTheKindThatAWordBeforeTheSlashMeans) {
  Cluster16 cluster;
  cluster.pod("prod", "other", "", {.units = 3, .phase = "Pending"});
  const auto error = [&](const std::string& pod) {
    return run_in_pipe("tessera", {"why", pod, "--file", cluster.write()}).err;
  };
  EXPECT_EQ(error("jb/train"), "tessera: pod jb/train does not exist; did you mean job/train?\n");
  EXPECT_THAT(error("ml/train"), HasSubstr("pod ml/train does not exist; list the pods with"));
  EXPECT_THAT(error("prod/train"), Not(HasSubstr("did you mean"))) << "prod is a namespace";
}

TEST(Check, NotesPodsThatWaitForAResourceThatNoNodeOffers) {
  Cluster16 cluster;
  cluster.fresh("nvidia", {.other_limits = {{"nvidia.com/gpu", "1"}}});
  cluster.fresh("second", {.other_limits = {{"nvidia.com/gpu", "2"}}});
  std::ostringstream out;
  EXPECT_EQ(run_check({.cluster = {.file = cluster.write()}}, out, out, {}), 0);
  EXPECT_THAT(out.str(),
              HasSubstr("note  unknown_resource  pods ml/nvidia and ml/second wait for ever: "
                        "\"nvidia.com/gpu\" is offered by no node: did you mean aliyun.com/gpu?\n"))
      << out.str();
}

}  // namespace
}  // namespace tessera::cli
