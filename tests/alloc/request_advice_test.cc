#include "alloc/request_advice.h"

#include <gtest/gtest.h>

#include "cluster.h"

namespace tessera::alloc {
namespace {

using testing::container;
using testing::pod_of;

std::string advice(const PodSpec& pod, const ResourceNames& names = {}) {
  return mixed_request_advice(pod, names, Unit::gib());
}

// HAMi's users write gpu: 1 and gpumem: 3000 for a share of one GPU.
TEST(MixedRequestAdvice, SaysWhatTheContainerGetsAndWhatToWriteInstead) {
  const PodSpec pod = pod_of("p", {container("main", 3, 1)});
  EXPECT_TRUE(mixes_whole_and_shared(pod));
  EXPECT_EQ(advice(pod),
            "container \"main\" gets 1 whole GPU (aliyun.com/gpu) and also 3GiB of another GPU "
            "(aliyun.com/gpu-mem); for 3GiB of one GPU, remove aliyun.com/gpu; for whole GPUs only, remove "
            "aliyun.com/gpu-mem");
}

TEST(MixedRequestAdvice, UsesTheResourceNamesOfTheCluster) {
  const ResourceNames names({.prefix = "example.com", .whole = "nvidia.com/gpu"});
  const std::string text = advice(pod_of("p", {container("main", 3, 2)}), names);
  EXPECT_NE(text.find("2 whole GPUs (nvidia.com/gpu)"), std::string::npos) << text;
  EXPECT_NE(text.find("(example.com/gpu-mem)"), std::string::npos) << text;
}

TEST(MixedRequestAdvice, NamesTheShareOnEachGpuOfASplitRequest) {
  PodSpec pod = pod_of("p", {container("main", 8, 1)});
  pod.annotations["aliyun.com/gpu-count"] = "2";
  EXPECT_NE(advice(pod).find("4GiB of each of 2 other GPUs"), std::string::npos) << advice(pod);
}

TEST(MixedRequestAdvice, IsEmptyForOtherRequests) {
  for (const PodSpec& pod :
       {pod_of("share", {container("main", 3)}), pod_of("whole", {container("main", 0, 1)}),
        pod_of("two", {container("a", 3), container("b", 0, 1)}), pod_of("none", {container("main", 0, 0)}),
        pod_of("empty", {})}) {
    EXPECT_FALSE(mixes_whole_and_shared(pod)) << pod.name;
    EXPECT_EQ(advice(pod), "") << pod.name;
  }
  EXPECT_EQ(advice(pod_of("invalid", {container("main", 3, 100)})), "")
      << "another message says what is wrong";
}

TEST(UnknownModelAdvice, SuggestsASimilarModelAndListsWhatExists) {
  Ledger ledger({});
  Inventory inventory = testing::inventory_of("gpu-a", {80, 16});
  inventory.gpus[0].model = "NVIDIA A100-SXM4-80GB";
  inventory.gpus[1].model = "Tesla T4";
  ledger.upsert_node(testing::node_with("gpu-a", inventory));
  Request request;
  EXPECT_EQ(unknown_model_advice(ledger, request), "");
  request.models = {"A100", "t4"};
  EXPECT_EQ(unknown_model_advice(ledger, request), "");
  request.models = {"A10O"};
  EXPECT_EQ(unknown_model_advice(ledger, request),
            "no GPU of the cluster is of model \"A10O\"; did you mean A100? The cluster has \"NVIDIA "
            "A100-SXM4-80GB\" and \"Tesla T4\"");
  request.models = {"A100", "Gaudi"};
  EXPECT_EQ(unknown_model_advice(ledger, request),
            "no GPU of the cluster is of model \"Gaudi\". The cluster has \"NVIDIA A100-SXM4-80GB\" and "
            "\"Tesla T4\"");
}

// A forged inventory may have many models. Then it is not said that a model does not exist.
TEST(UnknownModelAdvice, IsEmptyIfThereAreTooManyModels) {
  Ledger ledger({});
  for (int node = 0; node < 9; ++node) {
    Inventory inventory = testing::inventory_of("gpu", {16, 16, 16, 16, 16, 16, 16, 16});
    for (std::size_t gpu = 0; gpu < inventory.gpus.size(); ++gpu) {
      inventory.gpus[gpu].model = "Fake" + std::to_string(node) + "-" + std::to_string(gpu);
    }
    ledger.upsert_node(testing::node_with("node-" + std::to_string(node), inventory));
  }
  Request request;
  request.models = {"H100"};
  EXPECT_EQ(unknown_model_advice(ledger, request), "");
}

TEST(UnknownModelAdvice, IsEmptyIfNoModelIsKnown) {
  Request request;
  request.models = {"A100"};
  EXPECT_EQ(unknown_model_advice(Ledger({}), request), "");
}

}  // namespace
}  // namespace tessera::alloc
