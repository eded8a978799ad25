// The KubeSchedulerConfiguration, printed and merged.
#include "extender/scheduler_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "base/file.h"

namespace tessera::extender {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(SchedulerConfig, PrintsTheFilesThatAreDeployed) {
  Config config;
  EXPECT_EQ(read_file("deploy/scheduler-config/second-scheduler.yaml").value_or(""),
            scheduler_config(config, default_url(config)));
  config.attach = Attach::kService;
  EXPECT_EQ(read_file("deploy/scheduler-config/cluster-scheduler.yaml").value_or(""),
            scheduler_config(config, default_url(config)));
}

Config behind_a_service() {
  Config config;
  config.attach = Attach::kService;
  return config;
}

// With --config, kube-scheduler ignores its flag --kubeconfig, and a static pod has no service
// account. Without a kubeconfig in the file, kube-scheduler did not start.
TEST(SchedulerConfig, NamesTheKubeconfigOfTheClustersOwnScheduler) {
  const auto kubeconfig = [](const std::string& yaml) {
    const YAML::Node client = YAML::Load(yaml)["clientConnection"];
    return client ? client["kubeconfig"].Scalar() : "none";
  };
  EXPECT_EQ(kubeconfig(scheduler_config(behind_a_service(), "http://e:1")), "/etc/kubernetes/scheduler.conf");
  EXPECT_EQ(kubeconfig(scheduler_config(behind_a_service(), "http://e:1", "/mine")), "/mine");
  EXPECT_EQ(kubeconfig(scheduler_config(behind_a_service(), "http://e:1", "")), "none");
  EXPECT_EQ(kubeconfig(scheduler_config({}, "http://e:1")), "none") << "a pod has a service account";
  EXPECT_EQ(kubeconfig(scheduler_config({}, "http://e:1", "/mine")), "/mine") << "an explicit file wins";
}

TEST(SchedulerConfig, NamesTheLeaseThatTheExtenderWatches) {
  const auto lease = [](const Config& config) {
    const YAML::Node election = YAML::Load(scheduler_config(config, "http://e:1"))["leaderElection"];
    return election["resourceNamespace"].Scalar() + "/" + election["resourceName"].Scalar();
  };
  Config config;
  EXPECT_EQ(lease(config), "kube-system/tessera-scheduler");
  config.scheduler_lease_namespace = "gpu";
  config.scheduler_lease_name = "my-scheduler";
  EXPECT_EQ(lease(config), "gpu/my-scheduler");
}

// Names in Kubernetes may consist of digits. Without quotes, kube-scheduler would read a number.
TEST(SchedulerConfig, QuotesNamesThatLookLikeOtherTypes) {
  Config config;
  config.scheduler_lease_namespace = "no";
  config.scheduler_lease_name = "1e3";
  const std::string yaml = scheduler_config(config, "http://e:1");
  EXPECT_THAT(yaml, HasSubstr("resourceNamespace: \"no\"\n"));
  EXPECT_THAT(yaml, HasSubstr("resourceName: \"1e3\"\n"));
}

constexpr const char* kExisting = R"(
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig: [{name: NodeResourcesFit, args: {x: 1}}]
extenders:
- {urlPrefix: "http://other/", filterVerb: f}
)";

TEST(SchedulerConfig, MergeAddsTheStanzaAndKeepsTheRest) {
  const auto merged = merge_scheduler_config({}, "http://e:1", kExisting, "s.yaml");
  ASSERT_TRUE(merged) << merged.error().text();
  EXPECT_THAT(merged->yaml, HasSubstr("http://other/"));
  EXPECT_THAT(merged->yaml, HasSubstr("http://e:1/gpushare-scheduler"));
  EXPECT_THAT(merged->yaml, HasSubstr("NodeResourcesFit"));
  EXPECT_THAT(merged->yaml, HasSubstr("percentageOfNodesToScore: 100"));
  EXPECT_TRUE(merged->remarks.empty());
}

TEST(SchedulerConfig, AsksForTheBestNodesOnlyIfNothingElseScoresNodes) {
  EXPECT_THAT(scheduler_config({}, "http://e:1"), HasSubstr("filterVerb: filter/best\n"));
  const std::string plain = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
  const std::pair<std::string, const char*> cases[] = {
      {plain, "filterVerb: filter/best\n"},
      {plain + "profiles: [{schedulerName: a, plugins: {score: {enabled: [{name: ImageLocality, weight: "
               "9}]}}}]\n",
       "filterVerb: filter\n"},
      {kExisting, "filterVerb: filter\n"},
  };
  for (const auto& [existing, verb] : cases) {
    const auto merged = merge_scheduler_config({}, "http://e:1", existing, "s.yaml");
    ASSERT_TRUE(merged) << merged.error().text();
    EXPECT_THAT(merged->yaml, HasSubstr(verb)) << existing;
  }
}

TEST(SchedulerConfig, MergeIsIdempotent) {
  const auto once = merge_scheduler_config({}, "http://e:1", kExisting, "s.yaml");
  const auto twice = merge_scheduler_config({}, "http://e:1", once->yaml, "s.yaml");
  ASSERT_TRUE(twice) << twice.error().text();
  EXPECT_EQ(once->yaml, twice->yaml);
}

// kube-scheduler allows only one bindVerb. Without the CA it would connect unverified.
TEST(SchedulerConfig, MergeReplacesTheStanzasOfTheOriginalsAndKeepsTheirTls) {
  for (const char* prefix : {"gpushare-scheduler", "gputopology-scheduler", "gpu-scheduler-extender/"}) {
    const auto merged = merge_scheduler_config(
        {}, "https://e:1",
        std::string(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n") +
            "- {urlPrefix: \"https://old:39999/" + prefix +
            "\", bindVerb: bind, tlsConfig: {caFile: /ca.crt}}\n",
        "s.yaml");
    ASSERT_TRUE(merged) << merged.error().text();
    EXPECT_THAT(merged->yaml, Not(HasSubstr("old:39999"))) << prefix;
    EXPECT_THAT(merged->yaml, HasSubstr("https://e:1/gpushare-scheduler"));
    EXPECT_THAT(merged->yaml, HasSubstr("caFile: /ca.crt"));
  }
}

TEST(SchedulerConfig, MergeRejectsWhatKubeSchedulerRejects) {
  const std::pair<const char*, const char*> cases[] = {
      {"a: b", "not a KubeSchedulerConfiguration"},
      {"apiVersion: kubescheduler.config.k8s.io/v1beta2\nkind: KubeSchedulerConfiguration", "apiVersion is"},
      {"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n- "
       "{urlPrefix: u, bindVerb: b}",
       "already binds pods"},
      {"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n- "
       "{urlPrefix: u, managedResources: "
       "[{name: aliyun.com/gpu}]}",
       "already manages aliyun.com/gpu"},
      {"x: [", "s.yaml:"},
      {"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders: 7\n",
       "s.yaml:3:12: extenders is not a list"},
      {"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n- x\n",
       "s.yaml:4:3: this element of extenders is not a mapping"},
      {"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection: x\n",
       "s.yaml:3:19: clientConnection is not a mapping"},
      {"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n---\na: b\n",
       "has 2 YAML documents"},
      {"", "not a KubeSchedulerConfiguration"},
  };
  for (const auto& [yaml, wanted] : cases) {
    const auto merged = merge_scheduler_config({}, "http://e:1", yaml, "s.yaml");
    ASSERT_FALSE(merged) << yaml;
    EXPECT_THAT(merged.error().text(), HasSubstr(wanted));
  }
}

TEST(SchedulerConfig, MergeKeepsAnotherPercentageAndExplainsIt) {
  const auto merged = merge_scheduler_config(
      {}, "http://e:1", std::string(kExisting) + "percentageOfNodesToScore: 30\n", "s.yaml");
  ASSERT_TRUE(merged) << merged.error().text();
  EXPECT_THAT(merged->yaml, HasSubstr("percentageOfNodesToScore: 30"));
  ASSERT_EQ(merged->remarks.size(), 1U);
}

TEST(SchedulerConfig, MergeExplainsHowKubeSchedulerTreatsProfiles) {
  const auto merged = merge_scheduler_config({}, "http://e:1", R"(
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: other
  percentageOfNodesToScore: 30
  pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/x]}}]
)",
                                             "s.yaml");
  ASSERT_TRUE(merged) << merged.error().text();
  ASSERT_EQ(merged->remarks.size(), 2U);
  EXPECT_THAT(merged->remarks[0], HasSubstr("percentageOfNodesToScore of profile other is 30"));
  EXPECT_THAT(merged->remarks[1], HasSubstr("ignoredResources of NodeResourcesFit in profile other"));
}

TEST(SchedulerConfig, MergeKeepsTheKubeconfigAndReportsAMissingOne) {
  const auto merged = [](const std::string& more, const Config& config = behind_a_service(),
                         std::optional<std::string> kubeconfig = std::nullopt) {
    return merge_scheduler_config(config, "http://e:1", kExisting + more, "s.yaml", std::move(kubeconfig))
        .value();
  };
  const std::string with = "clientConnection: {qps: 9, kubeconfig: /theirs}\n";
  const std::string without = "clientConnection: {qps: 9}\n";
  for (const std::optional<std::string>& flag : {std::optional<std::string>(), {"/mine"}}) {
    const SchedulerConfig kept = merged(with, behind_a_service(), flag);
    EXPECT_THAT(kept.yaml, HasSubstr(with));
    EXPECT_TRUE(kept.remarks.empty());
  }
  for (const std::string& missing : {std::string(), without, std::string("clientConnection:\n"),
                                     std::string("clientConnection: {kubeconfig: \"\"}\n")}) {
    const SchedulerConfig left = merged(missing);
    EXPECT_THAT(left.yaml, Not(HasSubstr("/etc/kubernetes")));
    ASSERT_EQ(left.remarks.size(), 1U) << missing;
    EXPECT_THAT(left.remarks[0], HasSubstr("s.yaml: clientConnection.kubeconfig is missing"));
    EXPECT_THAT(left.remarks[0], HasSubstr("--scheduler-kubeconfig"));

    const SchedulerConfig filled = merged(missing, behind_a_service(), "/mine");
    EXPECT_EQ(YAML::Load(filled.yaml)["clientConnection"]["kubeconfig"].Scalar(), "/mine");
    EXPECT_TRUE(filled.remarks.empty());
  }
  EXPECT_THAT(merged(without, behind_a_service(), "/mine").yaml,
              HasSubstr("clientConnection: {qps: 9, kubeconfig: /mine}\n"));
  EXPECT_TRUE(merged(without, behind_a_service(), "").remarks.empty())
      << "an empty kubeconfig means a service account";
  EXPECT_TRUE(merged(without, {}).remarks.empty()) << "a second scheduler has a service account";
}

TEST(SchedulerConfig, MergeReportsThatTheExtenderWatchesAnotherLease) {
  Config config;
  const auto remarks = [&](const std::string& more) {
    return merge_scheduler_config(config, "http://e:1", kExisting + more, "s.yaml").value().remarks;
  };
  const std::string own = "leaderElection: {resourceNamespace: gpu, resourceName: mine}\n";
  EXPECT_TRUE(remarks(own).empty()) << "no extender watches the Lease";
  config.scheduler_lease_namespace = "gpu";
  config.scheduler_lease_name = "mine";
  EXPECT_TRUE(remarks(own).empty());
  EXPECT_THAT(remarks(""),
              ::testing::ElementsAre(HasSubstr(
                  "leaderElection takes the Lease kube-system/kube-scheduler, but "
                  "schedulerLease is gpu/mine, so nothing would be bound; use the same Lease in both")));
}

TEST(SchedulerConfig, AcceptsUrlsWithAndWithoutPrefixAndSlash) {
  for (const char* url :
       {"http://10.0.0.1:32766", "http://10.0.0.1:32766/", "http://10.0.0.1:32766/gpushare-scheduler",
        "http://10.0.0.1:32766/gpushare-scheduler/"}) {
    EXPECT_EQ(extender_url(url).value_or(""), "http://10.0.0.1:32766") << url;
  }
  EXPECT_EQ(extender_url("https://gpu.example.com/behind/a/gateway/").value_or(""),
            "https://gpu.example.com/behind/a/gateway");
  EXPECT_THAT(extender_url("10.0.0.1:32766").error().text(), HasSubstr("--url"));
}

constexpr const char* kHead =
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

// kube-scheduler does not start with a node affinity whose values are [true] instead of ["true"].
TEST(SchedulerConfig, MergeKeepsTheQuotesOfText) {
  const std::pair<const char*, const char*> texts[] = {
      {R"("true")", "true"}, {R"('1')", "1"},         {R"("null")", "null"},
      {R"("~")", "~"},       {R"("1.0")", "1.0"},     {R"("")", ""},
      {R"("0x10")", "0x10"}, {R"("yes")", "yes"},     {R"("2021-01-01")", "2021-01-01"},
      {R"("a\nb")", "a\nb"}, {R"("12:30")", "12:30"}, {R"("it's \"so\"")", "it's \"so\""},
  };
  for (const auto& [written, text] : texts) {
    const auto merged = merge_scheduler_config(
        {}, "http://e:1",
        std::string(kHead) + "profiles: [{pluginConfig: [{name: NodeAffinity, args: {values: [" + written +
            "]}}]}]\n",
        "s.yaml");
    ASSERT_TRUE(merged) << merged.error().text();
    const YAML::Node value = YAML::Load(merged->yaml)["profiles"][0]["pluginConfig"][0]["args"]["values"][0];
    ASSERT_TRUE(value.IsScalar()) << written;
    EXPECT_EQ(value.Scalar(), text);
    EXPECT_EQ(value.Tag(), "!") << merged->yaml << "must stay quoted";
  }
}

TEST(SchedulerConfig, MergeKeepsTheRestOfTheFile) {
  const std::string rest = R"(percentageOfNodesToScore: 100
z: &1
  on: off
  "on": "off"
a: *1
numbers: [1, -1, 1.0, 0x10, 1e3, .inf, 2021-01-01, 12:30:00]
truths: [true, no]
nothing: ~
emptyMap: {}
emptyList: []
lists:
  -
    - {b: 1, a: [2, *1]}
    - {}
  - "1"
text: "first\nsecond\n"
number: &2 7
same: *2
tagged: !<tag:yaml.org,2002:str> 5
<<: *1
)";
  const auto merged = merge_scheduler_config({}, "http://e:1", kHead + rest, "s.yaml");
  ASSERT_TRUE(merged) << merged.error().text();
  EXPECT_THAT(merged->yaml, ::testing::StartsWith(kHead + rest + "extenders:\n"));
}

TEST(SchedulerConfig, MergeKeepsTextOfSeveralLines) {
  const auto merged = merge_scheduler_config(
      {}, "http://e:1", std::string(kHead) + "literal: |\n  1\n  2\nfolded: >-\n  3\n  4\nplain: 5\n  6\n",
      "s.yaml");
  ASSERT_TRUE(merged) << merged.error().text();
  const YAML::Node root = YAML::Load(merged->yaml);
  EXPECT_EQ(root["literal"].Scalar(), "1\n2\n");
  EXPECT_EQ(root["folded"].Scalar(), "3 4");
  EXPECT_EQ(root["plain"].Scalar(), "5 6");
}

// An alias may be inside of the node that it names.
TEST(SchedulerConfig, MergeTerminatesOnAListThatContainsItself) {
  const auto merged = merge_scheduler_config({}, "http://e:1", std::string(kHead) + "a: &x [*x]\n", "s.yaml");
  ASSERT_TRUE(merged) << merged.error().text();
  EXPECT_THAT(merged->yaml, HasSubstr("a: &1 [*1]\n"));
}

TEST(SchedulerConfig, MergeAcceptsJson) {
  const auto merged = merge_scheduler_config(
      {}, "http://e:1",
      R"({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "x": {"y": "1"}})",
      "s.json");
  ASSERT_TRUE(merged) << merged.error().text();
  const YAML::Node root = YAML::Load(merged->yaml);
  EXPECT_EQ(root["x"]["y"].Tag(), "!");
  EXPECT_EQ(root["extenders"][0]["bindVerb"].Scalar(), "bind");
}

// yaml-cpp stops in the middle of such a tag, which would truncate the configuration.
TEST(SchedulerConfig, MergeRejectsTagsThatCannotBeWritten) {
  const auto merged = merge_scheduler_config(
      {}, "http://e:1", "%TAG !e! a<b\n---\n" + std::string(kHead) + "a: !e!x y\n", "s.yaml");
  ASSERT_FALSE(merged) << merged->yaml;
  EXPECT_EQ(merged.error().text(), "s.yaml: invalid tag");
}

}  // namespace
}  // namespace tessera::extender
