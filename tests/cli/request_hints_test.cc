// The hints of `tessera why` about names that are misspelt, and about requests that mean something else
// than users of other systems think.
#include "cli/diagnose/request_hints.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/diagnose/why.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

std::string why(const SavedCluster& cluster, const std::string& pod) {
  std::ostringstream out;
  std::ostringstream err;
  WhyOptions options{.pod = pod};
  options.cluster.file = cluster.write();
  EXPECT_EQ(run_why(options, out, err, {}), 0) << err.str();
  return out.str();
}

struct TwoModels : SavedCluster {
  TwoModels() {
    node("gpu-a", inventory_of("a", 2, 16384, "Tesla T4"));
    node("gpu-b", inventory_of("b", 2, 81920, "NVIDIA A100-SXM4-80GB"));
  }
};

TEST(RequestHints, WarnAboutWholeAndSharedGpusInOneContainer) {
  TwoModels cluster;
  cluster.pod("ml", "both", "", {.units = 3, .whole = 1, .phase = "Pending"});
  const std::string text = why(cluster, "ml/both");
  EXPECT_TRUE(
      has(text, "Note: container \"main\" gets 1 whole GPU (aliyun.com/gpu) and also 3GiB of another GPU"))
      << text;
  EXPECT_TRUE(has(text, "for 3GiB of one GPU, remove aliyun.com/gpu;")) << text;
}

TEST(RequestHints, AlsoWarnAboutABoundPod) {
  TwoModels cluster;
  cluster.pod("ml", "both", "gpu-a", {.units = 3, .whole = 1});
  EXPECT_TRUE(has(why(cluster, "ml/both"), "Note: container \"main\" gets 1 whole GPU"));
}

TEST(RequestHints, SayWhatToWriteInsteadOfASuffix) {
  TwoModels cluster;
  cluster.pod("ml", "gi", "", {.phase = "Pending", .other_limits = {{"aliyun.com/gpu-mem", "3Gi"}}});
  const std::string text = why(cluster, "ml/gi");
  EXPECT_TRUE(
      has(text, "aliyun.com/gpu-mem is 3Gi, but it counts units of GPU memory and has no suffix: write 3 if"))
      << text;
}

TEST(RequestHints, SuggestTheResourceThatIsServed) {
  TwoModels cluster;
  cluster.pod("ml", "nvidia", "", {.phase = "Pending", .other_limits = {{"nvidia.com/gpu", "1"}}});
  cluster.pod("ml", "typo", "", {.phase = "Pending", .other_limits = {{"aliyun.com/gpumem", "3"}}});
  cluster.pod("ml", "hami", "", {.phase = "Pending", .other_limits = {{"nvidia.com/gpumem", "3000"}}});
  std::string text = why(cluster, "ml/nvidia");
  EXPECT_TRUE(has(text, "requests no GPUs under a name that Tessera serves")) << text;
  EXPECT_TRUE(has(text,
                  "\"nvidia.com/gpu\" is offered by no node: did you mean aliyun.com/gpu? Tessera serves "
                  "aliyun.com/gpu-mem, aliyun.com/gpu, aliyun.com/gpu-count, "))
      << text;
  EXPECT_TRUE(has(text, "resourceNames.whole=nvidia.com/gpu")) << text;
  text = why(cluster, "ml/typo");
  EXPECT_TRUE(has(text, "\"aliyun.com/gpumem\" is offered by no node: did you mean aliyun.com/gpu-mem?"))
      << text;
  EXPECT_FALSE(has(text, "resourceNames.whole")) << text;
  text = why(cluster, "ml/hami");
  EXPECT_TRUE(has(text, "did you mean aliyun.com/gpu-mem?")) << text;
}

TEST(RequestHints, AreSilentAboutAResourceThatAnotherPluginServes) {
  TwoModels cluster;
  cluster.plain_node("other", {.other_capacity = {{"nvidia.com/gpu", "8"}}});
  cluster.plain_node("gone", {.other_capacity = {{"amd.com/gpu", "0"}}});
  cluster.pod("ml", "nvidia", "", {.phase = "Pending", .other_limits = {{"nvidia.com/gpu", "1"}}});
  cluster.pod("ml", "amd", "", {.phase = "Pending", .other_limits = {{"amd.com/gpu", "1"}}});
  EXPECT_FALSE(has(why(cluster, "ml/nvidia"), "did you mean"));
  EXPECT_TRUE(has(why(cluster, "ml/amd"), "\"amd.com/gpu\" is offered by no node")) << "its plugin has gone";
}

TEST(RequestHints, SuggestKnownAnnotations) {
  TwoModels cluster;
  cluster.pod(
      "ml", "p", "",
      {.units = 3,
       .annotations = {{"tessera.io/gpu-modle", "T4"}, {"tessera.io/colour", "blue"}, {"other/x", "y"}},
       .phase = "Pending"});
  const std::string text = why(cluster, "ml/p");
  EXPECT_TRUE(has(text,
                  "The annotation \"tessera.io/gpu-modle\" is unknown and has no effect: did you mean "
                  "tessera.io/gpu-model? The annotations are tessera.io/policy, "))
      << text;
  EXPECT_TRUE(
      has(text, "The annotation \"tessera.io/colour\" is unknown and has no effect. The annotations are "))
      << text;
  EXPECT_FALSE(has(text, "other/x")) << text;
}

TEST(RequestHints, SuggestModelsAndNameUnknownGpus) {
  TwoModels cluster;
  cluster.pod("ml", "model", "",
              {.units = 3, .annotations = {{"tessera.io/gpu-model", "A10O"}}, .phase = "Pending"});
  cluster.pod("ml", "uuid", "",
              {.units = 3, .annotations = {{"tessera.io/gpu-uuids", "GPU-a-0,GPU-z-9"}}, .phase = "Pending"});
  std::string text = why(cluster, "ml/model");
  EXPECT_TRUE(has(text,
                  "tessera.io/gpu-model: no GPU of the cluster is of model \"A10O\"; did you mean A100? The "
                  "cluster has \"NVIDIA A100-SXM4-80GB\" and \"Tesla T4\""))
      << text;
  text = why(cluster, "ml/uuid");
  EXPECT_TRUE(has(text, "no node has GPU \"GPU-z-9\"")) << text;
}

TEST(RequestHints, SuggestPolicies) {
  TwoModels cluster;
  cluster.pod("ml", "p", "",
              {.units = 3, .annotations = {{"tessera.io/policy", "bin-pack"}}, .phase = "Pending"});
  EXPECT_TRUE(has(why(cluster, "ml/p"), "did you mean binpack?"));
}

TEST(RequestHints, AreEmptyForAnOrdinaryPod) {
  TwoModels cluster;
  cluster.pod("ml", "p", "",
              {.units = 3,
               .annotations = {{"tessera.io/policy", "spread"}, {"tessera.io/gpu-model", "t4"}},
               .phase = "Pending"});
  const std::string text = why(cluster, "ml/p");
  EXPECT_FALSE(has(text, "did you mean")) << text;
  EXPECT_FALSE(has(text, "Note:")) << text;
}

}  // namespace
}  // namespace tessera::cli
