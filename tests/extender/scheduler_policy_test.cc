// A scheduler Policy of an old cluster, converted and merged.
#include "extender/scheduler_policy.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "extender/scheduler_config.h"

namespace tessera::extender {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// As the installer of gpushare writes it.
constexpr const char* kGpushare = R"({
  "kind": "Policy",
  "apiVersion": "v1",
  "extenders": [
    {
      "urlPrefix": "http://127.0.0.1:32766/gpushare-scheduler",
      "filterVerb": "filter",
      "bindVerb":   "bind",
      "enableHttps": false,
      "nodeCacheCapable": true,
      "managedResources": [
        {
          "name": "aliyun.com/gpu-mem",
          "ignoredByScheduler": false
        }
      ],
      "ignorable": false
    }
  ]
})";

Config behind_a_service() {
  Config config;
  config.attach = Attach::kService;
  return config;
}

Result<SchedulerConfig> merge(const std::string& policy) {
  return merge_scheduler_config(behind_a_service(), "http://e:1", policy, "p.json");
}

// Merges a Policy with these fields.
SchedulerConfig merge_fields(const std::string& fields) {
  const auto merged = merge(R"({"kind":"Policy","apiVersion":"v1",)" + fields + "}");
  EXPECT_TRUE(merged) << merged.error().text();
  return merged.value_or(SchedulerConfig{});
}

YAML::Node profile_of(const SchedulerConfig& config) {
  return YAML::Load(config.yaml)["profiles"][0];
}

std::vector<std::string> names(const YAML::Node& list) {
  std::vector<std::string> names;
  for (const auto& entry : list) {
    names.push_back(entry["name"].Scalar());
  }
  return names;
}

TEST(SchedulerPolicy, OfGpushareBecomesTheFileThatIsDeployed) {
  const auto merged = merge(kGpushare);
  ASSERT_TRUE(merged) << merged.error().text();
  EXPECT_EQ(YAML::Dump(YAML::Load(merged->yaml)["extenders"]),
            YAML::Dump(YAML::Load(scheduler_config(behind_a_service(), "http://e:1"))["extenders"]));
  const YAML::Node root = YAML::Load(merged->yaml);
  EXPECT_EQ(root["apiVersion"].Scalar(), "kubescheduler.config.k8s.io/v1");
  EXPECT_EQ(root["kind"].Scalar(), "KubeSchedulerConfiguration");
  EXPECT_EQ(root["clientConnection"]["kubeconfig"].Scalar(), "/etc/kubernetes/scheduler.conf");
  EXPECT_FALSE(root["profiles"]) << "the default plugins";
  EXPECT_THAT(merged->remarks,
              ElementsAre(HasSubstr("replace the flag --policy-config-file of kube-scheduler with --config"),
                          "p.json: Tessera's extender at http://e:1/gpushare-scheduler replaces the one at "
                          "http://127.0.0.1:32766/gpushare-scheduler",
                          HasSubstr("clientConnection.kubeconfig is /etc/kubernetes/scheduler.conf")));
}

TEST(SchedulerPolicy, KeepsOtherExtenders) {
  const SchedulerConfig merged = merge_fields(
      R"("extenders":[{"urlPrefix":"https://other:1/x","filterVerb":"f","prioritizeVerb":"p","weight":3,"enableHttps":true,)"
      R"("httpTimeout":5000000000,"tlsConfig":{"insecure":true},"ignorable":true,"colour":"red"},)"
      R"({"urlPrefix":"http://master:32743/gputopology-scheduler/","prioritizeVerb":"sort","weight":4,"bindVerb":"bind"}])");
  const YAML::Node extenders = YAML::Load(merged.yaml)["extenders"];
  ASSERT_EQ(extenders.size(), 2U);
  const YAML::Node& other = extenders[0];
  EXPECT_EQ(other["urlPrefix"].Scalar(), "https://other:1/x");
  EXPECT_EQ(other["weight"].Scalar(), "3");
  EXPECT_EQ(other["enableHTTPS"].Scalar(), "true");
  EXPECT_FALSE(other["enableHttps"]) << "kube-scheduler would reject the file";
  EXPECT_FALSE(other["colour"]);
  EXPECT_EQ(other["httpTimeout"].Scalar(), "5000000000ns");
  EXPECT_EQ(other["tlsConfig"]["insecure"].Scalar(), "true");
  EXPECT_EQ(extenders[1]["urlPrefix"].Scalar(), "http://e:1/gpushare-scheduler");
  EXPECT_EQ(extenders[1]["filterVerb"].Scalar(), "filter") << "another extender scores nodes";
  EXPECT_THAT(
      merged.remarks,
      Contains(
          "p.json: \"colour\" of the extender at \"https://other:1/x\" has no equivalent and is dropped"));
  EXPECT_THAT(merged.remarks,
              Contains(HasSubstr("replaces the one at http://master:32743/gputopology-scheduler/")));
}

TEST(SchedulerPolicy, TurnsOffPluginsThatItDoesNotList) {
  const SchedulerConfig merged = merge_fields(
      R"("predicates":[{"name":"GeneralPredicates"},{"name":"CheckVolumeBinding"},{"name":"MatchInterPodAffinity"}],)"
      R"("priorities":[{"name":"BalancedResourceAllocation","weight":2},{"name":"NodeAffinityPriority","weight":1},)"
      R"({"name":"ImageLocalityPriority","weight":7},{"name":"EqualPriority","weight":1}])");
  const YAML::Node plugins = profile_of(merged)["plugins"];
  EXPECT_EQ(profile_of(merged)["schedulerName"].Scalar(), "default-scheduler");
  EXPECT_THAT(names(plugins["multiPoint"]["disabled"]),
              ElementsAre("VolumeRestrictions", "NodeVolumeLimits", "VolumeZone", "PodTopologySpread"));
  EXPECT_FALSE(plugins["filter"]);
  EXPECT_THAT(names(plugins["score"]["disabled"]),
              ElementsAre("TaintToleration", "NodeResourcesFit", "InterPodAffinity"));
  EXPECT_THAT(names(plugins["score"]["enabled"]),
              ElementsAre("NodeAffinity", "NodeResourcesBalancedAllocation", "ImageLocality"));
  EXPECT_EQ(plugins["score"]["enabled"][2]["weight"].Scalar(), "7");
  EXPECT_THAT(merged.remarks,
              Contains("p.json: these plugins are off, because the Policy lists neither their "
                       "predicate nor their priority: VolumeRestrictions, NodeVolumeLimits, "
                       "VolumeZone, PodTopologySpread"));
  EXPECT_THAT(merged.remarks,
              Contains("p.json: predicate \"GeneralPredicates\" is the plugin NodeResourcesFit, "
                       "NodeName, NodePorts, NodeAffinity now"));
  EXPECT_THAT(merged.yaml, HasSubstr("filterVerb: filter\n"))
      << "not filter/best: the weights are not the defaults";
}

// A plugin that only scores must not filter: PodTopologySpread without the predicate EvenPodsSpread.
TEST(SchedulerPolicy, SeparatesFiltersFromScores) {
  const YAML::Node profile = profile_of(merge_fields(
      R"("predicates":[{"name":"PodFitsResources"}],"priorities":[{"name":"EvenPodsSpreadPriority","weight":1}])"));
  EXPECT_THAT(names(profile["plugins"]["filter"]["disabled"]), ElementsAre("PodTopologySpread"));
  EXPECT_THAT(names(profile["plugins"]["preFilter"]["disabled"]), ElementsAre("PodTopologySpread"));
  EXPECT_EQ(profile["pluginConfig"][0]["args"]["defaultingType"].Scalar(), "List");
  // Without a list, the defaults apply to filters or scores.
  const YAML::Node scores_only =
      profile_of(merge_fields(R"("priorities":[{"name":"SelectorSpreadPriority","weight":1}])"));
  EXPECT_FALSE(scores_only["plugins"]["filter"]);
  EXPECT_FALSE(scores_only["pluginConfig"]) << "the default constraints are the successor";
  const YAML::Node filters_only = profile_of(merge_fields(R"("predicates":[],"priorities":null)"));
  EXPECT_FALSE(filters_only["plugins"]["score"]);
  EXPECT_THAT(names(filters_only["plugins"]["multiPoint"]["disabled"]), Not(Contains("TaintToleration")))
      << "always on";
}

TEST(SchedulerPolicy, KeepsTheScoringStrategy) {
  const auto strategy = [](const std::string& fields) {
    const YAML::Node args = profile_of(merge_fields(fields))["pluginConfig"][0];
    EXPECT_EQ(args["name"].Scalar(), "NodeResourcesFit");
    return args["args"]["scoringStrategy"];
  };
  EXPECT_EQ(strategy(R"("priorities":[{"name":"MostRequestedPriority","weight":5}])")["type"].Scalar(),
            "MostAllocated");
  const YAML::Node ratio = strategy(
      R"("priorities":[{"name":"Mine","weight":5,"argument":{"requestedToCapacityRatioArguments":)"
      R"({"shape":[{"utilization":0,"score":0},{"utilization":100,"score":10}],"resources":[{"name":"cpu","weight":1}]}}}])");
  EXPECT_EQ(ratio["type"].Scalar(), "RequestedToCapacityRatio");
  EXPECT_EQ(ratio["requestedToCapacityRatio"]["shape"][1]["score"].Scalar(), "10");
  EXPECT_EQ(ratio["resources"][0]["name"].Scalar(), "cpu");
  const SchedulerConfig least =
      merge_fields(R"("priorities":[{"name":"LeastRequestedPriority","weight":1}])");
  EXPECT_FALSE(profile_of(least)["pluginConfig"]);
  EXPECT_THAT(least.remarks, Contains(HasSubstr("with the scoring strategy LeastAllocated")));
}

TEST(SchedulerPolicy, NamesEverythingWithoutAnEquivalent) {
  const SchedulerConfig merged = merge_fields(
      R"("predicates":[{"name":"PodFitsResources"},{"name":"MaxEBSVolumeCount"},{"name":"Lucky"},)"
      R"({"name":"Zone","argument":{"labelsPresence":{"labels":["zone"],"presence":true}}}],)"
      R"("priorities":[{"name":"NodePreferAvoidPodsPriority","weight":10000},{"name":"MostRequestedPriority","weight":1},)"
      R"({"name":"LeastRequestedPriority","weight":1}],)"
      R"("hardPodAffinitySymmetricWeight":10,"alwaysCheckAllPredicates":true,"moon":"full")");
  for (const char* text :
       {"predicate \"Lucky\" has no equivalent and is dropped",
        "predicate \"Zone\" has no equivalent and is dropped, with its argument",
        "predicate \"MaxEBSVolumeCount\" is the plugin NodeVolumeLimits now: in-tree volumes are CSI volumes "
        "now",
        "priority \"NodePreferAvoidPodsPriority\" has no equivalent",
        "alwaysCheckAllPredicates has no equivalent", "\"moon\" has no equivalent and is dropped",
        "priority \"LeastRequestedPriority\" is dropped, because another priority is the plugin "
        "NodeResourcesFit as well",
        "hardPodAffinitySymmetricWeight is hardPodAffinityWeight of the plugin InterPodAffinity now"}) {
    EXPECT_THAT(merged.remarks, Contains(HasSubstr(text)));
  }
  const YAML::Node config = profile_of(merged)["pluginConfig"];
  EXPECT_THAT(names(config), ElementsAre("NodeResourcesFit", "InterPodAffinity"));
  EXPECT_EQ(config[1]["args"]["hardPodAffinityWeight"].Scalar(), "10");
}

TEST(SchedulerPolicy, RejectsWhatKubeSchedulerRejected) {
  const auto error = [](const std::string& fields) {
    const auto merged = merge(R"({"kind":"Policy","apiVersion":"v1",)" + fields + "}");
    return merged ? "" : merged.error().text();
  };
  EXPECT_EQ(error(R"("predicates":{})"), "p.json:1:49: predicates is not a list");
  EXPECT_EQ(error(R"("predicates":["x"])"), "p.json:1:50: this element of predicates is not a mapping");
  EXPECT_THAT(error(R"("predicates":[{}])"), HasSubstr("this predicate has no name"));
  EXPECT_THAT(error(R"("priorities":[{"weight":1}])"), HasSubstr("this priority has no name"));
  for (const char* weight : {"0", "-1", "\"x\"", "1e9", "null", "99999999999"}) {
    EXPECT_THAT(
        error(fmt::format(R"("priorities":[{{"name":"ImageLocalityPriority","weight":{}}}])", weight)),
        HasSubstr("the weight of priority \"ImageLocalityPriority\" is not a number from 1 to"));
  }
  EXPECT_THAT(error(R"("hardPodAffinitySymmetricWeight":101)"), HasSubstr("from 0 to 100"));
  EXPECT_THAT(error(R"("extenders":[{"filterVerb":"f"}])"), HasSubstr("this extender has no urlPrefix"));
  EXPECT_THAT(
      error(R"("priorities":[{"name":"m","weight":1,"argument":{"requestedToCapacityRatioArguments":{}}}])"),
      HasSubstr("has no shape"));
  EXPECT_THAT(error(R"("extenders":[{"urlPrefix":"http://o","bindVerb":"b"}])"),
              HasSubstr("already binds pods"));
  const auto other = merge(R"({"kind":"Policy","apiVersion":"v2"})");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().text(), HasSubstr("not a KubeSchedulerConfiguration"));
}

// The result is an input again: the second merge changes nothing and has nothing to say about it.
// kube-scheduler used the last of two equal keys, and a YAML parser uses the first.
TEST(SchedulerPolicy, RejectsAKeyThatIsSetTwice) {
  const auto merged = merge(
      "{\"kind\":\"Policy\",\"apiVersion\":\"v1\",\n\"predicates\":[{\"name\":\"HostName\","
      "\"name\":\"PodFitsPorts\"}]}");
  ASSERT_FALSE(merged);
  EXPECT_EQ(merged.error().text(), "p.json:2:34: \"name\" is set twice");
  EXPECT_FALSE(merge("kind: Policy\napiVersion: v1\na: &a\n  b: *a"));
}

TEST(SchedulerPolicy, ConvertedFileCanBeMergedAgain) {
  const SchedulerConfig once = merge_fields(R"("predicates":[{"name":"HostName"}])");
  const auto twice = merge(once.yaml);
  ASSERT_TRUE(twice) << twice.error().text();
  EXPECT_EQ(twice->yaml, once.yaml);
  EXPECT_THAT(twice->remarks, IsEmpty());
}

}  // namespace
}  // namespace tessera::extender
