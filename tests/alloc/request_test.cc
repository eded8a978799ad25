#include "alloc/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "alloc/record.h"
#include "alloc/typical.h"
#include "cluster.h"

namespace tessera::alloc::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const PodSpec& pod) {
  const auto request = Request::of_pod(pod, ResourceNames());
  return request ? "" : request.error().text();
}

TEST(Request, SumsItsContainersOnOneGpu) {
  const Request request = request_of(pod_of("p", {container("a", 3), container("b", 2)}));
  EXPECT_EQ(request.shape.share, (SharePart{.units = 5, .gpus = 1}));
  EXPECT_EQ(request.shape.whole, 0);
  EXPECT_FALSE(request.has_several_parts());
}

TEST(Request, CountsInitContainersAndSidecarsAsKubernetesDoes) {
  struct Case {
    std::vector<ContainerSpec> containers;
    std::uint64_t units;
  };
  const auto init = [](std::int64_t units) {
    return container("i" + std::to_string(units), units, 0, ContainerKind::kInit);
  };
  const auto side = [](std::int64_t units) {
    return container("s" + std::to_string(units), units, 0, ContainerKind::kSidecar);
  };
  const auto main = [](std::int64_t units) { return container("m" + std::to_string(units), units); };
  const std::vector<Case> cases = {
      {{init(6), main(4), main(3)}, 7},   // the main containers need more than the init container
      {{init(50), main(5)}, 50},          // the init container needs more
      {{init(3), init(5), main(8)}, 8},   // init containers run one after the other
      {{side(3), init(4), main(4)}, 7},   // a sidecar runs together with both
      {{init(4), side(3), main(4)}, 7},   // but not with the init container before it
      {{init(9), side(3), main(4)}, 9},   //
      {{side(3), init(9), main(4)}, 12},  //
      {{side(1), init(2), side(4), init(7), main(1)}, 12},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(request_of(pod_of("p", c.containers)).gpus.units, c.units);
  }
}

TEST(Request, CountsCpuAndMemoryTheSameWayAndAddsTheOverhead) {
  PodSpec pod =
      pod_of("p", {container("i", 0, 0, ContainerKind::kInit), container("a", 1), container("b", 0)});
  pod.containers[0].cpu_milli = 4000;
  pod.containers[1].cpu_milli = 1000;
  pod.containers[2].cpu_milli = 500;
  pod.containers[2].memory_bytes = 1 << 20;
  pod.overhead_cpu_milli = 100;
  EXPECT_EQ(request_of(pod).shape.node, (NodeUse{.cpu_milli = 4100, .memory_bytes = 1 << 20}));
}

TEST(Request, SplitsMemoryOverAsManyGpusAsTheLabelSays) {
  PodSpec pod = share_pod("p", 12);
  pod.labels["aliyun.com/gpu-count"] = "4";
  EXPECT_EQ(request_of(pod).shape.share, (SharePart{.units = 3, .gpus = 4}));
  pod.labels.clear();
  pod.annotations["aliyun.com/gpu-count"] = "2";
  EXPECT_EQ(request_of(pod).shape.share, (SharePart{.units = 6, .gpus = 2}));
  pod.labels["aliyun.com/gpu-count"] = "3";
  EXPECT_THAT(error_of(pod), HasSubstr("keep one"));
}

TEST(Request, AcceptsGpuCountAsAnotherNameOfWholeGpus) {
  PodSpec pod = pod_of("p", {container("main", 0)});
  pod.containers[0].gpu_limits.emplace_back(GpuResource::kCount, Quantity::units(2));
  EXPECT_EQ(request_of(pod).shape.whole, 2);
  pod.containers[0].gpu_limits.emplace_back(GpuResource::kWhole, Quantity::units(2));
  EXPECT_EQ(error_of(pod),
            "container \"main\" requests both aliyun.com/gpu and aliyun.com/gpu-count, two names of "
            "one resource; keep aliyun.com/gpu");
}

TEST(Request, MayHaveSharesAndWholeGpus) {
  const Request request = request_of(pod_of("p", {container("a", 4), container("b", 0, 2)}));
  EXPECT_EQ(request.shape.share.units, 4U);
  EXPECT_EQ(request.shape.whole, 2);
}

TEST(Request, PlacesContainersSeparatelyWhenAsked) {
  PodSpec pod = pod_of("p", {container("a", 3), container("b", 2)});
  pod.annotations["tessera.io/placement"] = "per-container";
  EXPECT_TRUE(request_of(pod).has_several_parts());
  pod.annotations["tessera.io/placement"] = "one-gpu";
  EXPECT_FALSE(request_of(pod).has_several_parts());
}

TEST(Request, ReadsPolicyModelsAndUuids) {
  PodSpec pod = share_pod("p", 3);
  pod.annotations["tessera.io/policy"] = "spread, best_effort";
  pod.annotations["tessera.io/gpu-model"] = "T4, A100 ,T4";
  pod.annotations["tessera.io/gpu-uuids"] = "GPU-b,GPU-a";
  const Request request = request_of(pod);
  EXPECT_EQ(request.share_policy, Policy::kSpread);
  EXPECT_EQ(request.whole_policy, Policy::kBestEffort);
  EXPECT_THAT(request.models, ElementsAre("A100", "T4"));
  EXPECT_THAT(request.uuids, ElementsAre("GPU-a", "GPU-b"));
}

TEST(Request, NamesTheInvalidField) {
  const auto with = [](const char* name, const char* value) {
    PodSpec pod = share_pod("p", 7);
    pod.annotations[name] = value;
    return error_of(pod);
  };
  EXPECT_THAT(with("tessera.io/policy", "best"),
              HasSubstr("annotation tessera.io/policy: policy \"best\" is not one"));
  EXPECT_THAT(with("tessera.io/policy", "binpack,spread"), HasSubstr("names both binpack and spread"));
  EXPECT_THAT(with("tessera.io/placement", "two-gpu"), HasSubstr("tessera.io/placement is \"two-gpu\""));
  EXPECT_THAT(with("tessera.io/gpu-model", "A100,,T4"), HasSubstr("tessera.io/gpu-model"));
  EXPECT_THAT(with("aliyun.com/gpu-count", "0"), HasSubstr("aliyun.com/gpu-count is \"0\""));
  EXPECT_THAT(with("aliyun.com/gpu-count", "two"), HasSubstr("not a number of GPUs"));
  EXPECT_EQ(with("aliyun.com/gpu-count", "2"),
            "container \"main\": aliyun.com/gpu-mem is 7, which does not divide "
            "evenly over 2 GPUs (aliyun.com/gpu-count \"2\")");
  PodSpec both = share_pod("p", 3);
  both.annotations["tessera.io/gpu-uuids"] = "GPU-a";
  both.annotations["tessera.io/gpu-uuids-exclude"] = "GPU-a";
  EXPECT_THAT(error_of(both), HasSubstr("GPU \"GPU-a\" is in both"));
}

TEST(Request, RefusesInvalidAmounts) {
  for (const char* amount : {"-1", "500m", "1.5", "1Ei", "16777217"}) {
    PodSpec pod = pod_of("p", {container("main", 0)});
    pod.containers[0].gpu_limits.emplace_back(GpuResource::kMemory, Quantity::parse(amount).value());
    EXPECT_THAT(error_of(pod), HasSubstr("container \"main\": aliyun.com/gpu-mem is")) << amount;
  }
  EXPECT_THAT(error_of(whole_pod("p", 65)), HasSubstr("aliyun.com/gpu is 65"));
}

// Users write GPU memory as they write the memory of a container.
TEST(Request, SaysWhatToWriteInsteadOfAnAmountWithASuffix) {
  const auto error = [](const char* amount) {
    PodSpec pod = pod_of("p", {container("main", 0)});
    pod.containers[0].gpu_limits.emplace_back(GpuResource::kMemory, *Quantity::parse(amount));
    const auto request = Request::of_pod(pod, ResourceNames());
    return request ? "valid" : request.error().text();
  };
  EXPECT_EQ(
      error("3Gi"),
      "container \"main\": aliyun.com/gpu-mem is 3Gi, but it counts units of GPU memory and has no suffix: "
      "write 3 if a unit is 1GiB, 3072 if it is 1MiB");
  EXPECT_THAT(error("2500Mi"), HasSubstr("write 3 if")) << "rounded up";
  EXPECT_THAT(error("8G"), HasSubstr("is 8G, but it counts units"));
  EXPECT_THAT(error("1500m"), HasSubstr("is 1500m, not a whole number"));
  EXPECT_THAT(error("-3Gi"), HasSubstr("is -3Gi, not a whole number"));
  EXPECT_THAT(error("20000001"), HasSubstr("is 20000001, not a whole number from 0 to"));
  EXPECT_EQ(error("1k"), "valid");
}

TEST(Request, SuggestsTheNameOfAMisspeltPolicyOrPlacement) {
  PodSpec pod = share_pod("p", 3);
  pod.annotations["tessera.io/policy"] = "bin-pack";
  EXPECT_THAT(error_of(pod), HasSubstr("(whole GPUs); did you mean binpack?"));
  pod.annotations["tessera.io/policy"] = "best-effort";
  EXPECT_THAT(error_of(pod), HasSubstr("did you mean best_effort?"));
  pod.annotations["tessera.io/policy"] = "lucky";
  EXPECT_THAT(error_of(pod), ::testing::Not(HasSubstr("did you mean")));
  pod.annotations = {{"tessera.io/placement", "per_container"}};
  EXPECT_THAT(error_of(pod), HasSubstr("not one-gpu or per-container; did you mean per-container?"));
}

TEST(Request, ComputeShareAlsoNeedsMemory) {
  PodSpec pod = pod_of("p", {container("main", 0)});
  pod.containers[0].gpu_limits.emplace_back(GpuResource::kCorePercent, Quantity::units(30));
  EXPECT_THAT(error_of(pod), HasSubstr("a compute share also needs memory"));
  pod.containers[0].gpu_limits.emplace_back(GpuResource::kMemory, Quantity::units(3));
  EXPECT_EQ(request_of(pod).shape.share, (SharePart{.units = 3, .core_percent = 30, .gpus = 1}));
  pod.containers[0].gpu_limits[0].second = Quantity::units(130);
  EXPECT_THAT(error_of(pod), HasSubstr("more than the 100 of a GPU"));
}

TEST(Request, AcceptsRenamedResources) {
  const ResourceNames names({.prefix = "example.com", .whole = "nvidia.com/gpu"});
  EXPECT_EQ(names.find("example.com/gpu-mem"), GpuResource::kMemory);
  EXPECT_EQ(names.find("nvidia.com/gpu"), GpuResource::kWhole);
  EXPECT_EQ(names.find("example.com/gpu-count"), GpuResource::kCount);
  EXPECT_EQ(names.find("example.com/gpu-core.percentage"), GpuResource::kCorePercent);
  EXPECT_EQ(names.find("aliyun.com/gpu-mem"), std::nullopt);
  EXPECT_EQ(names.find("cpu"), std::nullopt);
}

// The extender keeps the requests of many pods. A long list must not fill its memory.
TEST(Request, RefusesListsThatAreTooLong) {
  for (const std::string_view name : {key::kGpuModel, key::kGpuUuids, key::kGpuUuidsExclude, key::kPolicy}) {
    PodSpec pod = share_pod("p", 3);
    pod.annotations[std::string(name)] = std::string(196'000, 'a');
    const auto request = Request::of_pod(pod, ResourceNames());
    ASSERT_FALSE(request);
    EXPECT_EQ(request.error().text(),
              fmt::format("annotation {} has 196000 bytes; at most 4096 are allowed", name));
  }
  PodSpec pod = share_pod("p", 3);
  pod.annotations[std::string(key::kGpuModel)] = std::string(4096, 'a');
  EXPECT_TRUE(Request::of_pod(pod, ResourceNames()));
  std::string names;
  for (int i = 0; i < 129; ++i) {
    names += fmt::format("{}GPU-{}", i == 0 ? "" : ",", i);
  }
  pod.annotations[std::string(key::kGpuModel)] = names;
  EXPECT_EQ(Request::of_pod(pod, ResourceNames()).error().text(),
            "annotation tessera.io/gpu-model lists 129 names; at most 128 are allowed");
}

// An error is kept as long as its pod.
TEST(Record, ShortensLongKeysInErrors) {
  const auto record =
      Record::parse(fmt::format(R"({{"v":1,"containers":{{"{}":7}}}})", std::string(60'000, 'x')));
  ASSERT_FALSE(record);
  EXPECT_LT(record.error().text().size(), 300U);
}

TEST(RequestHistogram, CountsNoRequestWithLongLists) {
  RequestHistogram recent;
  Request request = request_of(share_pod("p", 3));
  request.models = {std::string(400, 'a')};
  recent.add(request);
  EXPECT_EQ(recent.shapes(), 1U);
  request.models = {std::string(600, 'a')};
  recent.add(request);
  EXPECT_EQ(recent.shapes(), 1U);
}

TEST(RequestHistogram, KeepsABoundedNumberOfShapes) {
  RequestHistogram recent;
  for (std::uint32_t i = 1; i < 3 * RequestHistogram::kMostShapes; ++i) {
    for (int again = 0; again < 3; ++again) {
      recent.add(request_of(share_pod("p", i)));
    }
    ASSERT_LE(recent.shapes(), RequestHistogram::kMostShapes + 16);
  }
  const std::vector<TypicalRequest> typical = recent.typical();
  EXPECT_LE(typical.size(), RequestHistogram::kMostTypical);
  EXPECT_TRUE(std::ranges::is_sorted(typical, std::greater<>(), &TypicalRequest::count));
}

TEST(Request, MatchesModelsByWords) {
  EXPECT_TRUE(model_matches("NVIDIA A100-SXM4-80GB", "A100"));
  EXPECT_TRUE(model_matches("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm4-80gb"));
  EXPECT_TRUE(model_matches("Tesla V100-SXM2-32GB", "V100 SXM2"));
  EXPECT_FALSE(model_matches("NVIDIA A100-SXM4-80GB", "A10"));
  EXPECT_FALSE(model_matches("NVIDIA A100-SXM4-80GB", "SXM4 A100"));
  EXPECT_FALSE(model_matches("NVIDIA A100-SXM4-80GB", "-"));
}

TEST(Pod, OccupiesItsGpusUntilItsPhaseIsFinal) {
  PodSpec pod = share_pod("p", 3);
  for (const PodPhase phase : {PodPhase::kPending, PodPhase::kRunning, PodPhase::kUnknown}) {
    pod.phase = phase;
    for (const ContainerState state :
         {ContainerState::kNotStarted, ContainerState::kRunning, ContainerState::kTerminated}) {
      pod.containers[0].state = state;
      for (const bool deleting : {false, true}) {
        pod.deleting = deleting;
        EXPECT_TRUE(occupies(pod)) << "kubelet may restart the container";
      }
    }
  }
  for (const PodPhase phase : {PodPhase::kSucceeded, PodPhase::kFailed}) {
    pod.phase = phase;
    EXPECT_FALSE(occupies(pod));
  }
}

TEST(Pod, HasStartedIfAContainerWithAGpuHasRun) {
  PodSpec pod = pod_of("p", {container("init", 0, 0, ContainerKind::kInit),
                             container("sidecar", 1, 0, ContainerKind::kSidecar), container("web", 0),
                             container("zero", 0), container("main", 3)});
  pod.containers[3].gpu_limits.emplace_back(GpuResource::kMemory, Quantity());
  for (const unsigned without_gpu : {0U, 2U, 3U}) {
    pod.containers[without_gpu].state = ContainerState::kRunning;
    pod.containers[without_gpu].ran_before = true;
  }
  EXPECT_FALSE(has_started(pod));
  for (const unsigned with_gpu : {1U, 4U}) {
    PodSpec one = pod;
    one.containers[with_gpu].state = ContainerState::kRunning;
    EXPECT_TRUE(has_started(one));
    one.containers[with_gpu].state = ContainerState::kTerminated;
    EXPECT_TRUE(has_started(one));
    one.containers[with_gpu].state = ContainerState::kNotStarted;
    one.containers[with_gpu].ran_before = true;
    EXPECT_TRUE(has_started(one)) << "it waits to be restarted";
  }
}

}  // namespace
}  // namespace tessera::alloc::testing
