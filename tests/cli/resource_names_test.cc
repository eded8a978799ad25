// Clusters with other resource names: every command reads the names from Tessera's pods or from
// flags.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/cluster/own_namespace.h"
#include "cli/diagnose/check.h"
#include "cli/diagnose/why.h"
#include "cli/inspect/inspect.h"
#include "cli/top/top.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const alloc::ResourceNames::Config kNvidia{.prefix = "aliyun.com", .whole = "nvidia.com/gpu"};
const alloc::ResourceNames::Config kExample{.prefix = "example.com", .whole = ""};

// The annotations of a pod from a chart with other settings.
const Texts kWrong{{"tessera.io/resource-prefix", "wrong.com"},
                   {"tessera.io/resource-whole", "wrong.com/gpu"}};

// Adds a node with a GPU share and a whole GPU in use, and a pending pod.
void fill(SavedCluster& cluster) {
  cluster.node("gpu-a", inventory_of("a", 2, 16384));
  cluster.pod("ml", "infer", "gpu-a",
              {.units = 4, .annotations = {{"tessera.io/allocation", share_record({{"GPU-a-0", 4}})}}});
  cluster.pod("ml", "train", "gpu-a",
              {.whole = 1, .annotations = {{"tessera.io/allocation", whole_record({"GPU-a-1"})}}});
  cluster.pod(
      "ml", "waits", "",
      {.whole = 1, .phase = "Pending", .scheduler = "tessera-scheduler", .scheduling_attempted = true});
}

class OtherNames : public ::testing::TestWithParam<alloc::ResourceNames::Config> {
 protected:
  OtherNames() : cluster_(GetParam()) { fill(cluster_); }

  ClusterOptions names_from_flags() {
    const alloc::ResourceNames names(GetParam());
    return {.file = cluster_.write(), .resource_prefix = GetParam().prefix, .resource_whole = names.whole()};
  }
  ClusterOptions names_from_pods() {
    cluster_.placer("tessera-scheduler-0");
    return {.file = cluster_.write()};
  }

  static std::string inspect(const ClusterOptions& options) {
    std::ostringstream out;
    EXPECT_EQ(run_inspect({.cluster = options}, out, out, {}), 0);
    return out.str();
  }
  static std::string check(const ClusterOptions& options) {
    std::ostringstream out;
    run_check({.cluster = options}, out, out, {});
    return out.str();
  }

  SavedCluster cluster_;
};

INSTANTIATE_TEST_SUITE_P(ResourceNames, OtherNames, ::testing::Values(kNvidia, kExample));

TEST_P(OtherNames, AreReadFromTesserasOwnPods) {
  const ClusterOptions options = names_from_pods();
  EXPECT_THAT(inspect(options), HasSubstr("4/16                   16/16                  20/32"));
  EXPECT_EQ(check(options), "1 node with 2 GPUs, 2 pods on them\nNo problems found.\n");
  std::ostringstream top;
  EXPECT_EQ(run_top({.pods = true, .cluster = {.file = options.file, .all_namespaces = true}}, top, top, {}),
            0);
  EXPECT_THAT(top.str(), HasSubstr("waits"));
  std::ostringstream why;
  EXPECT_EQ(run_why({.cluster = options, .pod = "ml/waits"}, why, why, {}), 0);
  EXPECT_THAT(why.str(), HasSubstr("waits needs 1 whole GPU (ring). No node fits now."));
  EXPECT_THAT(why.str(), Not(HasSubstr("another device plugin")));
}

TEST_P(OtherNames, CanBeGivenByFlags) {
  const ClusterOptions options = names_from_flags();
  EXPECT_THAT(inspect(options), HasSubstr("4/16                   16/16                  20/32"));
  EXPECT_THAT(check(options), Not(HasSubstr("second_plugin")));
  EXPECT_THAT(check(options), Not(HasSubstr("capacity_differs")));
}

TEST(ResourceNames, FromFlagsOverrideThoseFromPods) {
  SavedCluster cluster(kExample);
  fill(cluster);
  cluster.placer("tessera-scheduler-0", {.annotations = kWrong});
  const Outcome outcome = run_in_pipe("tessera", {"check", "--file", cluster.write(), "--resource-prefix",
                                                  "example.com", "--resource-whole", "example.com/gpu"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

TEST(ResourceNames, AreReadFromAReadyPod) {
  SavedCluster cluster(kExample);
  fill(cluster);
  cluster.placer("tessera-scheduler-0", {.ready = false, .annotations = kWrong});
  cluster.placer("tessera-scheduler-1");
  const auto read = read_cluster({.file = cluster.write()}, {});
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->names.memory(), "example.com/gpu-mem");
  EXPECT_EQ(read->pods.size(), 3U);
}

// Every user can create a pod with the labels of Tessera's pods.
TEST(ResourceNames, AreThoseOfTesserasOwnNamespace) {
  SavedCluster cluster(kExample);
  fill(cluster);
  cluster.placer("tessera-scheduler-0");
  cluster.placer("forged", {.annotations = kWrong, .namespace_name = "aaa-tenant"});
  const std::string directory = cluster.write();
  const auto read = read_cluster({.file = directory}, {.details = true});
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->names.memory(), "example.com/gpu-mem");
  ASSERT_EQ(read->placers.size(), 1U);
  EXPECT_EQ(read->placers[0].name, "tessera-scheduler-0");
  EXPECT_THAT(read->foreign_pods,
              AllOf(HasSubstr("\"aaa-tenant\" have the labels"), HasSubstr("--tessera-namespace")));
  std::ostringstream out;
  EXPECT_EQ(run_check({.cluster = {.file = directory}}, out, out, {}), kFoundProblems);
  EXPECT_THAT(out.str(), HasSubstr("foreign_pods"));

  const auto chosen = read_cluster({.file = directory, .tessera_namespace = "aaa-tenant"}, {.details = true});
  ASSERT_TRUE(chosen) << chosen.error().text();
  EXPECT_NE(chosen->names.memory(), "example.com/gpu-mem");
}

TEST(ResourceNames, ThatKubernetesWouldRejectAreIgnored) {
  SavedCluster cluster;
  cluster.placer("tessera-scheduler-0", {.annotations = {{"tessera.io/resource-prefix", "!!!\x1b[2J"}}});
  const auto read = read_cluster({.file = cluster.write()}, {});
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->names.memory(), "aliyun.com/gpu-mem");
}

TEST(OwnNamespace, IsAUsualOneOrTheOneWithTheMostPods) {
  OwnNamespace own("");
  EXPECT_EQ(own.name(), "");
  own.add_agent("b");
  EXPECT_EQ(own.name(), "b");
  EXPECT_EQ(own.warning(), "");
  own.add_placer("a");
  EXPECT_EQ(own.name(), "a") << "agents matter only without schedulers";
  own.add_placer("b");
  EXPECT_EQ(own.name(), "b") << "it has more pods";
  own.add_placer("kube-system");
  EXPECT_EQ(own.name(), "kube-system");
  own.add_placer("tessera-system");
  EXPECT_EQ(own.name(), "tessera-system");
  EXPECT_THAT(own.warning(), HasSubstr("namespace \"a\", \"b\" and \"kube-system\" have"));
  OwnNamespace chosen("a");
  chosen.add_placer("tessera-system");
  EXPECT_EQ(chosen.name(), "a");
}

// If nvidia.com/gpu is not Tessera's resource, check still reports the plugin that serves it.
TEST(ResourceNames, OfAnotherPluginAreStillReported) {
  SavedCluster cluster(kNvidia);
  fill(cluster);
  std::ostringstream out;
  run_check({.cluster = {.file = cluster.write()}}, out, out, {});
  EXPECT_THAT(out.str(), HasSubstr("second_plugin"));
}

}  // namespace
}  // namespace tessera::cli
