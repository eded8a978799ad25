#include "alloc/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "alloc/original_record.h"
#include "cluster.h"

namespace tessera::alloc::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

GpuRequest gpu_request_of(const PodSpec& pod) {
  return GpuRequest::of_pod(pod, ResourceNames()).value();
}

const std::vector<GpuName> kGpus = {{"GPU-a", 0, 16}, {"GPU-b", 1, 32}, {"GPU-c", 2, 32}};

TEST(Record, ReadsBackWhatItPrints) {
  const Record record{{{"main", {{.gpu = "GPU-a", .units = 3, .core_percent = 20}}},
                       {"trainer", {{.gpu = "GPU-b", .whole = true}, {.gpu = "GPU-c", .whole = true}}}}};
  EXPECT_EQ(record.json(), R"({"v":1,"containers":{"main":[{"gpu":"GPU-a","mem":3,"core":20}],)"
                           R"("trainer":[{"gpu":"GPU-b","whole":true},{"gpu":"GPU-c","whole":true}]}})");
  EXPECT_EQ(Record::parse(record.json()).value(), record);
}

TEST(Record, NamesTheInvalidField) {
  const auto error_of = [](const char* text) { return Record::parse(text).error().text(); };
  EXPECT_THAT(error_of("x"), HasSubstr("tessera.io/allocation: not JSON"));
  EXPECT_THAT(error_of(R"({"v":2,"containers":{}})"), HasSubstr("tessera.io/allocation.v"));
  EXPECT_THAT(error_of(R"({"v":1})"), HasSubstr("containers is missing"));
  EXPECT_THAT(error_of(R"({"v":1,"containers":{"a":[{"mem":3}]}})"),
              HasSubstr("containers.a[0].gpu is missing"));
  EXPECT_THAT(error_of(R"({"v":1,"containers":{"a":[{"gpu":"G"}]}})"), HasSubstr("neither mem nor whole"));
  EXPECT_THAT(error_of(R"({"v":1,"containers":{"a":[{"gpu":"G","mem":3,"whole":true}]}})"),
              HasSubstr("both"));
  EXPECT_THAT(error_of(R"({"v":1,"containers":{"a":[{"gpu":"G","mem":0}]}})"), HasSubstr("a[0].mem"));
  EXPECT_THAT(error_of(R"({"v":1,"containers":{"a":[{"gpu":"index-0","mem":3}]}})"), HasSubstr("by index"));
}

TEST(Record, IsValidOnlyIfItEqualsTheRequest) {
  const GpuRequest request = gpu_request_of(pod_of("p", {container("a", 3), container("b", 0, 2)}));
  const auto fault = [&](const Record& record) {
    const auto shares = held_shares(request, record);
    return shares ? "" : shares.error().text();
  };
  const ContainerShares a{"a", {{.gpu = "GPU-a", .units = 3}}};
  const ContainerShares b{"b", {{.gpu = "GPU-b", .whole = true}, {.gpu = "GPU-c", .whole = true}}};
  EXPECT_EQ(fault({{a, b}}), "");
  EXPECT_THAT(fault({{a}}), HasSubstr("container \"b\" is missing"));
  EXPECT_THAT(fault({{a, b, {"c", {}}}}), HasSubstr("container \"c\" requests no GPUs"));
  EXPECT_THAT(fault({{a, b, a}}), HasSubstr("named twice"));
  EXPECT_THAT(fault({{{"a", {{.gpu = "GPU-a", .units = 4}}}, b}}), HasSubstr("has 4 units"));
  EXPECT_THAT(fault({{{"a", {{.gpu = "GPU-a", .units = 2}}}, b}}), HasSubstr("requests 3"));
  EXPECT_THAT(fault({{a, {"b", {b.shares[0], b.shares[0]}}}}), HasSubstr("has GPU \"GPU-b\" twice"));
  EXPECT_THAT(fault({{{"a", {{.gpu = "GPU-b", .units = 3}}}, b}}), HasSubstr("both whole and in shares"));
  EXPECT_THAT(fault({{{"a", {{.gpu = "GPU-a", .whole = true}}}, b}}), HasSubstr("0 units"));
}

TEST(Record, TwoContainersCannotHoldOneGpuWholeAtTheSameTime) {
  const GpuRequest together = gpu_request_of(pod_of("p", {container("a", 0, 1), container("b", 0, 1)}));
  const GpuRequest after =
      gpu_request_of(pod_of("p", {container("a", 0, 1, ContainerKind::kInit), container("b", 0, 1)}));
  const Record same{{{"a", {{.gpu = "GPU-a", .whole = true}}}, {"b", {{.gpu = "GPU-a", .whole = true}}}}};
  EXPECT_FALSE(held_shares(together, same));
  EXPECT_THAT(held_shares(after, same).value(), ElementsAre(GpuShare{.gpu = "GPU-a", .whole = true}));
}

TEST(Record, HoldsThePeakUseOfEachGpu) {
  const GpuRequest request =
      gpu_request_of(pod_of("p", {container("s", 2, 0, ContainerKind::kSidecar),
                                  container("i", 9, 0, ContainerKind::kInit), container("m", 4)}));
  const Record record{{{"s", {{.gpu = "GPU-a", .units = 2}}},
                       {"i", {{.gpu = "GPU-a", .units = 9}}},
                       {"m", {{.gpu = "GPU-b", .units = 4}}}}};
  EXPECT_THAT(held_shares(request, record).value(),
              ElementsAre(GpuShare{.gpu = "GPU-a", .units = 11}, GpuShare{.gpu = "GPU-b", .units = 4}));
}

TEST(BindingAnnotations, OneGpuHasTheFirstGenerationKeys) {
  const GpuRequest request = gpu_request_of(share_pod("p", 3));
  const Record record{{{"main", {{.gpu = "GPU-b", .units = 3}}}}};
  EXPECT_THAT(
      binding_annotations(request, record, kGpus, {.assume_time_ns = 1763238000000000000}).value(),
      UnorderedElementsAre(Pair("tessera.io/allocation", record.json()), Pair("ALIYUN_COM_GPU_MEM_IDX", "1"),
                           Pair("ALIYUN_COM_GPU_MEM_POD", "3"), Pair("ALIYUN_COM_GPU_MEM_DEV", "32"),
                           Pair("ALIYUN_COM_GPU_MEM_ASSUME_TIME", "1763238000000000000"),
                           Pair("ALIYUN_COM_GPU_MEM_ASSIGNED", "true")));
}

TEST(BindingAnnotations, OriginalPluginGetsItsOwnKeysAndAssignsItself) {
  const GpuRequest request = gpu_request_of(share_pod("p", 3));
  const std::vector<GpuName> gpus = {{"index-0", 0, 15}, {"index-1", 1, 15}};
  const Record record{{{"main", {{.gpu = "index-1", .units = 3}}}}};
  const Annotations annotations = binding_annotations(request, record, gpus, {.has_agent = false}).value();
  EXPECT_EQ(annotations.find("ALIYUN_COM_GPU_MEM_ASSIGNED")->second, "false");
  EXPECT_EQ(annotations.find("ALIYUN_COM_GPU_MEM_IDX")->second, "1");
  EXPECT_FALSE(annotations.contains("tessera.io/allocation"));
}

TEST(BindingAnnotations, SeveralContainersOrGpusHaveTheSecondGenerationKey) {
  const GpuRequest request =
      gpu_request_of(pod_of("p", {container("a", 4), container("no", 0), container("b", 2)}));
  const Record record{{{"a", {{.gpu = "GPU-a", .units = 2}, {.gpu = "GPU-b", .units = 2}}},
                       {"b", {{.gpu = "GPU-a", .units = 2}}}}};
  const Annotations annotations = binding_annotations(request, record, kGpus, {}).value();
  EXPECT_EQ(annotations.find("scheduler.framework.gpushare.allocation")->second,
            R"({"0":{"0":2,"1":2},"2":{"0":2}})");
  EXPECT_FALSE(annotations.contains("ALIYUN_COM_GPU_MEM_IDX"));
  EXPECT_EQ(original_record(annotations, request).value(),
            (Record{{{"a", {{.gpu = "index-0", .units = 2}, {.gpu = "index-1", .units = 2}}},
                     {"b", {{.gpu = "index-0", .units = 2}}}}}));
}

TEST(BindingAnnotations, WholeGpusHaveTheKeysOfTheTopologyScheduler) {
  const GpuRequest request = gpu_request_of(whole_pod("p", 2));
  const Record record{{{"main", {{.gpu = "GPU-c", .whole = true}, {.gpu = "GPU-a", .whole = true}}}}};
  EXPECT_THAT(
      binding_annotations(request, record, kGpus, {.assume_time_ns = 7}).value(),
      UnorderedElementsAre(Pair("tessera.io/allocation", record.json()), Pair("ALIYUN_COM_GPU_GROUP", "0,2"),
                           Pair("ALIYUN_COM_GPU_IDX", "0,2"), Pair("ALIYUN_COM_GPU_COUNT_POD", "2"),
                           Pair("ALIYUN_COM_GPU_ASSUME_TIME", "7"), Pair("ALIYUN_COM_GPU_ASSIGNED", "true")));
}

// A Binding cannot remove an annotation from the pod, and readers prefer the later generation.
TEST(BindingAnnotations, EmptiesRecordAnnotationsThatThePodWasCreatedWith) {
  const GpuRequest request = gpu_request_of(share_pod("p", 8));
  const Annotations created = {{"tessera.io/allocation", R"({"v":1,"containers":{}})"},
                               {"scheduler.framework.gpushare.allocation", R"({"0":{"3":8}})"},
                               {"ALIYUN_COM_GPU_MEM_IDX", "3"},
                               {"tessera.io/policy", "spread"}};
  const std::vector<GpuName> gpus = {{"index-0", 0, 15}, {"index-3", 3, 15}};
  const Record record{{{"main", {{.gpu = "index-0", .units = 8}}}}};
  Annotations binding = binding_annotations(request, record, gpus, {.has_agent = false}).value();
  empty_stale_records(record_keys(created), binding);
  EXPECT_THAT(binding, ::testing::IsSupersetOf({Pair("tessera.io/allocation", ""),
                                                Pair("scheduler.framework.gpushare.allocation", ""),
                                                Pair("ALIYUN_COM_GPU_MEM_IDX", "0")}));
  EXPECT_FALSE(binding.contains("tessera.io/policy"));
  EXPECT_FALSE(binding.contains("ALIYUN_COM_GPU_GROUP")) << "the pod has none";
  EXPECT_EQ(original_record(binding, request).value(), record);
}

TEST(OriginalRecord, TreatsAnEmptyAnnotationAsAbsent) {
  const Annotations emptied = {{"scheduler.framework.gpushare.allocation", ""},
                               {"ALIYUN_COM_GPU_MEM_IDX", ""},
                               {"ALIYUN_COM_GPU_GROUP", ""}};
  EXPECT_EQ(original_record(emptied, gpu_request_of(share_pod("p", 3))).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(original_record(emptied, gpu_request_of(whole_pod("p", 1))).error().code(), ErrorCode::kNotFound);
}

TEST(BindingAnnotations, RefusesGpusThatTheNodeDoesNotHave) {
  const GpuRequest request = gpu_request_of(share_pod("p", 3));
  EXPECT_FALSE(binding_annotations(request, {{{"main", {{.gpu = "GPU-x", .units = 3}}}}}, kGpus, {}));
}

TEST(OriginalRecord, ReadsTheFirstGeneration) {
  const GpuRequest request =
      gpu_request_of(pod_of("p", {container("i", 9, 0, ContainerKind::kInit), container("a", 3)}));
  const Record expected{{{"i", {{.gpu = "index-2", .units = 9}}}, {"a", {{.gpu = "index-2", .units = 3}}}}};
  // The original extender counted main containers only.
  EXPECT_EQ(
      original_record({{"ALIYUN_COM_GPU_MEM_IDX", "2"}, {"ALIYUN_COM_GPU_MEM_POD", "3"}}, request).value(),
      expected);
  EXPECT_EQ(
      original_record({{"ALIYUN_COM_GPU_MEM_IDX", "2"}, {"ALIYUN_COM_GPU_MEM_POD", "9"}}, request).value(),
      expected);
}

TEST(OriginalRecord, RefusesAnnotationsThatDifferFromTheRequest) {
  const GpuRequest share = gpu_request_of(share_pod("p", 3));
  const GpuRequest whole = gpu_request_of(whole_pod("p", 2));
  const auto error_of = [](const Annotations& annotations, const GpuRequest& request) {
    return original_record(annotations, request).error();
  };
  EXPECT_EQ(error_of({}, share).code(), ErrorCode::kNotFound);
  EXPECT_EQ(error_of({{"ALIYUN_COM_GPU_MEM_IDX", "x3"}, {"ALIYUN_COM_GPU_MEM_POD", "3"}}, share).text(),
            "annotation ALIYUN_COM_GPU_MEM_IDX is \"x3\", not a GPU index");
  EXPECT_THAT(error_of({{"ALIYUN_COM_GPU_MEM_IDX", "-1"}, {"ALIYUN_COM_GPU_MEM_POD", "3"}}, share).text(),
              HasSubstr("not a GPU index"));
  EXPECT_THAT(error_of({{"ALIYUN_COM_GPU_MEM_IDX", "0"}, {"ALIYUN_COM_GPU_MEM_POD", "300"}}, share).text(),
              HasSubstr("but the containers request 3"));
  EXPECT_THAT(error_of({{"ALIYUN_COM_GPU_MEM_IDX", "0"}}, share).text(),
              HasSubstr("ALIYUN_COM_GPU_MEM_POD is \"\""));
  const std::string v2(key::kMemAllocation);
  EXPECT_THAT(error_of({{v2, "not json"}}, share).text(), HasSubstr("not JSON"));
  EXPECT_THAT(error_of({{v2, R"({"1":{"0":3}})"}}, share).text(), HasSubstr("does not say where container"));
  EXPECT_THAT(error_of({{v2, R"({"0":{"0":3},"7":{"1":1}})"}}, share).text(),
              HasSubstr("names container \"7\""));
  EXPECT_THAT(error_of({{"ALIYUN_COM_GPU_GROUP", "0"}}, whole).text(), HasSubstr("not 2 different GPUs"));
  EXPECT_THAT(error_of({{"ALIYUN_COM_GPU_GROUP", "1,1"}}, whole).text(), HasSubstr("not 2 different GPUs"));
  EXPECT_THAT(error_of({{"ALIYUN_COM_GPU_IDX", "0,b"}}, whole).text(),
              HasSubstr("not a list of GPU indices"));
}

TEST(OriginalRecord, ReadsWholeGpusOfBothTopologyDesigns) {
  const GpuRequest request = gpu_request_of(pod_of("p", {container("a", 0, 2), container("b", 0, 1)}));
  const Record expected{{{"a", {{.gpu = "index-1", .whole = true}, {.gpu = "index-2", .whole = true}}},
                         {"b", {{.gpu = "index-4", .whole = true}}}}};
  EXPECT_EQ(original_record({{"ALIYUN_COM_GPU_GROUP", "1,2,4"}}, request).value(), expected);
  EXPECT_EQ(original_record({{"ALIYUN_COM_GPU_IDX", "4,2,1"}}, request).value(), expected);
}

TEST(ContainerEnv, DescribesTheShareOfTheContainer) {
  const GpuRequest request = gpu_request_of(pod_of("p", {container("a", 3), container("b", 2)}));
  const Record record{{{"a", {{.gpu = "GPU-b", .units = 3}}}, {"b", {{.gpu = "GPU-b", .units = 2}}}}};
  EXPECT_THAT(
      container_env(request, record, kGpus, "a"),
      UnorderedElementsAre(Pair("NVIDIA_VISIBLE_DEVICES", "GPU-b"), Pair("ALIYUN_COM_GPU_MEM_IDX", "1"),
                           Pair("ALIYUN_COM_GPU_MEM_POD", "5"), Pair("ALIYUN_COM_GPU_MEM_CONTAINER", "3"),
                           Pair("ALIYUN_COM_GPU_MEM_DEV", "32")));
}

TEST(ContainerEnv, HidesGpusFromContainersWithoutShares) {
  const GpuRequest request = gpu_request_of(share_pod("p", 3));
  const Record record{{{"main", {{.gpu = "GPU-gone", .units = 3}}}}};
  EXPECT_THAT(container_env(request, record, kGpus, "other"),
              ElementsAre(Pair("NVIDIA_VISIBLE_DEVICES", "void")));
  EXPECT_THAT(container_env(request, record, kGpus, "main"),
              ElementsAre(Pair("NVIDIA_VISIBLE_DEVICES", "void")));
}

TEST(ContainerEnv, KeepsTheFractionOverSeveralGpus) {
  const GpuRequest request = gpu_request_of(share_pod("p", 16));
  const Record record{{{"main", {{.gpu = "GPU-b", .units = 8}, {.gpu = "GPU-c", .units = 8}}}}};
  const Annotations env = container_env(request, record, kGpus, "main");
  EXPECT_EQ(env.find("NVIDIA_VISIBLE_DEVICES")->second, "GPU-b,GPU-c");
  EXPECT_EQ(env.find("ALIYUN_COM_GPU_MEM_IDX")->second, "1,2");
  EXPECT_EQ(env.find("ALIYUN_COM_GPU_MEM_CONTAINER")->second, "16");
  EXPECT_EQ(env.find("ALIYUN_COM_GPU_MEM_DEV")->second, "64");
}

}  // namespace
}  // namespace tessera::alloc::testing
