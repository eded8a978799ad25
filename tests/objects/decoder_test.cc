#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "json/padded_buffer.h"
#include "kube/list_decoder.h"
#include "kube/watch_decoder.h"
#include "objects/disruption_budget.h"
#include "objects/node_decoder.h"
#include "objects/pod_decoder.h"

namespace tessera::objects {
namespace {

using alloc::ContainerKind;
using alloc::ContainerState;
using alloc::GpuResource;
using kube::ListDecoder;
using kube::ObjectJson;
using kube::ObjectMeta;
using kube::ObjectSink;
using kube::WatchDecoder;
using kube::WatchType;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Pair;

class PodSink : public ObjectSink {
 public:
  Status decode(ObjectJson& object, ObjectMeta& meta) override {
    return decode_pod(object, names, meta, pod);
  }
  void keep(const ObjectMeta& /*meta*/) override {}
  void forget(const ObjectMeta& /*meta*/) override {}
  void unreadable(const ObjectMeta& /*meta*/, const Error& /*error*/) override {}
  alloc::ResourceNames names;
  alloc::PodSpec pod;
};

class DetailsSink : public PodSink {
 public:
  Status decode(ObjectJson& object, ObjectMeta& meta) override {
    return decode_pod(object, names, meta, pod, {.details = &details});
  }
  PodDetails details;
};

class NodeSink : public PodSink {
 public:
  Status decode(ObjectJson& object, ObjectMeta& meta) override {
    return decode_node(object, names, meta, node);
  }
  alloc::NodeSpec node;
};

// Decodes one object as the only event of a watch.
Status decode_one(const std::string& object, ObjectSink& sink, ObjectMeta* meta = nullptr) {
  WatchDecoder decoder;
  json::PaddedBuffer line(R"({"type":"ADDED","object":)" + object + "}");
  const auto read = decoder.decode(line.view(), sink);
  if (!read) {
    return fail(read.error());
  }
  if (meta != nullptr) {
    *meta = (*read)->meta;
  }
  return (*read)->decoded;
}

constexpr const char* kPod = R"({
  "metadata":{"name":"train-7","namespace":"ml","uid":"u1","resourceVersion":"42","deletionTimestamp":"2026-11-15T19:47:59Z",
    "labels":{"aliyun.com/gpu-count":"2","app":"x"},
    "annotations":{"tessera.io/policy":"spread","ALIYUN_COM_GPU_MEM_IDX":"1","other":"\u00e9\"","nothing":null},
    "managedFields":[{"fieldsV1":{"f:metadata":{}}}]},
  "spec":{"nodeName":"gpu-a","overhead":{"cpu":"250m","memory":"120Mi"},
    "containers":[{"name":"main","resources":{"limits":{"aliyun.com/gpu-mem":"3","cpu":"2","memory":"1Gi"},
                                            "requests":{"aliyun.com/gpu-mem":"3","cpu":"1500m","memory":"1Gi"}}},
                  {"name":"plain"}],
    "initContainers":[{"name":"fetch","resources":{"limits":{"aliyun.com/gpu":1}}},
                      {"name":"side","restartPolicy":"Always","resources":{}}]},
  "status":{"phase":"Running",
    "initContainerStatuses":[{"name":"fetch","state":{"terminated":{"exitCode":0}},"lastState":{"running":{}}},
                             {"name":"side","state":{"running":{"startedAt":"x"}}}],
    "containerStatuses":[{"name":"main","state":{"waiting":{"reason":"PodInitializing"}},"lastState":{}}]}})";

TEST(PodDecoder, ReadsTheFieldsThatTheLedgerNeeds) {
  PodSink sink;
  ObjectMeta meta;
  const Status read = decode_one(kPod, sink, &meta);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(meta.version, 42U);
  const alloc::PodSpec& pod = sink.pod;
  EXPECT_EQ(pod.namespace_name, "ml");
  EXPECT_EQ(pod.name, "train-7");
  EXPECT_EQ(pod.uid, "u1");
  EXPECT_EQ(pod.node_name, "gpu-a");
  EXPECT_TRUE(pod.deleting);
  EXPECT_EQ(pod.phase, alloc::PodPhase::kRunning);
  EXPECT_EQ(pod.overhead_cpu_milli, 250);
  EXPECT_EQ(pod.overhead_memory_bytes, 120 << 20);
  EXPECT_THAT(pod.labels, ElementsAre(Pair("aliyun.com/gpu-count", "2")));
  EXPECT_THAT(pod.annotations,
              ElementsAre(Pair("ALIYUN_COM_GPU_MEM_IDX", "1"), Pair("tessera.io/policy", "spread")));
  ASSERT_EQ(pod.containers.size(), 4U);
  EXPECT_EQ(pod.containers[0].name, "fetch");
  EXPECT_EQ(pod.containers[0].kind, ContainerKind::kInit);
  EXPECT_EQ(pod.containers[0].state, ContainerState::kTerminated);
  EXPECT_THAT(pod.containers[0].gpu_limits, ElementsAre(Pair(GpuResource::kWhole, Quantity::units(1))));
  EXPECT_EQ(pod.containers[1].kind, ContainerKind::kSidecar);
  EXPECT_EQ(pod.containers[1].state, ContainerState::kRunning);
  EXPECT_EQ(pod.containers[2].name, "main");
  EXPECT_EQ(pod.containers[2].state, ContainerState::kNotStarted);
  EXPECT_EQ(pod.containers[2].cpu_milli, 1500);
  EXPECT_EQ(pod.containers[2].memory_bytes, 1 << 30);
  EXPECT_THAT(pod.containers[2].gpu_limits, ElementsAre(Pair(GpuResource::kMemory, Quantity::units(3))));
  EXPECT_EQ(pod.containers[3].name, "plain");
}

TEST(PodDecoder, ReadsContainerIdsOnRequest) {
  class IdSink final : public PodSink {
   public:
    Status decode(ObjectJson& object, ObjectMeta& meta) override {
      return decode_pod(object, names, meta, pod, {.container_ids = true});
    }
  };
  constexpr const char* kWithIds =
      R"({"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"1"},
    "spec":{"containers":[{"name":"x"},{"name":"y"}],"initContainers":[{"name":"z"}]},
    "status":{"containerStatuses":[{"name":"x","containerID":"containerd://5d3c"},{"name":"y","containerID":""}],
              "initContainerStatuses":[{"name":"z","containerID":"docker://77aa"}]}})";
  IdSink with;
  ASSERT_TRUE(decode_one(kWithIds, with));
  EXPECT_THAT(with.pod.containers,
              ElementsAre(Field(&alloc::ContainerSpec::id, "77aa"), Field(&alloc::ContainerSpec::id, "5d3c"),
                          Field(&alloc::ContainerSpec::id, "")));
  PodSink without;
  ASSERT_TRUE(decode_one(kWithIds, without));
  EXPECT_EQ(without.pod.containers[1].id, "");
}

// While kubelet waits to restart a crashed container, its state is "waiting", as if it had never
// run.
TEST(PodDecoder, KnowsWhetherAContainerRanBefore) {
  constexpr const char* kCrashing =
      R"({"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"1"},
    "spec":{"containers":[{"name":"counted"},{"name":"ended"},{"name":"new"},{"name":"silent"}]},
    "status":{"containerStatuses":[
      {"name":"counted","state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{},"restartCount":3},
      {"name":"ended","state":{"waiting":{"reason":"CrashLoopBackOff"}},
       "lastState":{"terminated":{"exitCode":1}},"restartCount":0},
      {"name":"new","state":{"waiting":{"reason":"ContainerCreating"}},"lastState":{},"restartCount":0},
      {"name":"silent","lastState":null,"restartCount":null}]}})";
  PodSink sink;
  ASSERT_TRUE(decode_one(kCrashing, sink));
  const auto ran = [](bool before) { return Field(&alloc::ContainerSpec::ran_before, before); };
  EXPECT_THAT(sink.pod.containers, ElementsAre(ran(true), ran(true), ran(false), ran(false)));
  EXPECT_EQ(sink.pod.containers[0].state, ContainerState::kNotStarted) << "the state itself does not change";
  ASSERT_TRUE(decode_one(kPod, sink));
  EXPECT_FALSE(sink.pod.containers.back().ran_before) << "must not keep the value of the previous pod";
}

TEST(PodDecoder, ReadsLimitsOfOtherResourcesOnRequest) {
  class LimitSink final : public PodSink {
   public:
    Status decode(ObjectJson& object, ObjectMeta& meta) override {
      return decode_pod(object, names, meta, pod, {.resources = &wanted});
    }
    std::vector<std::string> wanted{"example.com/thing", "aliyun.com/gpu-mem"};
  };
  constexpr const char* kWithLimits =
      R"({"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"1"},
    "spec":{"containers":[{"name":"x","resources":{"limits":{"example.com/thing":"2","example.com/other":"1",
                                                             "aliyun.com/gpu-mem":"3","cpu":"1"}}}]}})";
  LimitSink with;
  ASSERT_TRUE(decode_one(kWithLimits, with));
  EXPECT_THAT(with.pod.containers[0].other_limits,
              ElementsAre(Pair("example.com/thing", Quantity::units(2))));
  EXPECT_THAT(with.pod.containers[0].gpu_limits, ElementsAre(Pair(GpuResource::kMemory, Quantity::units(3))));
  PodSink without;
  ASSERT_TRUE(decode_one(kWithLimits, without));
  EXPECT_TRUE(without.pod.containers[0].other_limits.empty());
}

TEST(PodDecoder, ReadsDetailsOnRequest) {
  constexpr const char* kWithDetails =
      R"({"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"1","creationTimestamp":"2026-11-15T19:47:59Z",
      "labels":{"app":"x","aliyun.com/gpu-count":"2"},
      "annotations":{"tessera.io/scheduler-name":"mine","tessera.io/policy":"spread","other":"y"}},
    "spec":{"schedulerName":"mine","nodeSelector":{"zone":"east"},"schedulingGates":[{"name":"one"},{"name":"two"}],
      "tolerations":[{"key":"gpu","operator":"Exists","effect":"NoSchedule"},{"key":"a","operator":"Equal","value":"b"}],
      "containers":[{"name":"x"}]},
    "status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False"},{"type":"Ready","status":"False"}],
      "containerStatuses":[{"name":"x","state":{"waiting":{"reason":"Held","message":"its GPU is unhealthy"}}},
                           {"name":"y","state":{"waiting":{"reason":"ContainerCreating"}}}]}})";
  DetailsSink sink;
  ASSERT_TRUE(decode_one(kWithDetails, sink));
  EXPECT_THAT(sink.pod.annotations, ElementsAre(Pair("tessera.io/policy", "spread")));
  EXPECT_THAT(sink.details.labels, ElementsAre(Pair("app", "x")));
  EXPECT_THAT(sink.details.annotations, ElementsAre(Pair("tessera.io/scheduler-name", "mine")));
  EXPECT_EQ(sink.details.created, "2026-11-15T19:47:59Z");
  EXPECT_EQ(sink.details.scheduler_name, "mine");
  EXPECT_THAT(sink.details.scheduling_gates, ElementsAre("one", "two"));
  EXPECT_THAT(sink.details.node_selector, ElementsAre(Pair("zone", "east")));
  EXPECT_THAT(sink.details.tolerations,
              ElementsAre(Taint{.key = "gpu", .effect = "NoSchedule", .exists = true},
                          Taint{.key = "a", .value = "b"}));
  EXPECT_TRUE(sink.details.scheduling_attempted);
  EXPECT_FALSE(sink.details.ready);
  EXPECT_THAT(sink.details.waiting, ElementsAre(Pair("x", "its GPU is unhealthy")));
  ASSERT_TRUE(decode_one(kPod, sink));
  EXPECT_EQ(sink.details.scheduler_name, "") << "must not keep the value of the previous pod";
  EXPECT_FALSE(sink.details.scheduling_attempted);
}

TEST(Tolerations, MatchTaintsAsKubernetesDoes) {
  const Taint taint{.key = "gpu", .value = "v100", .effect = "NoSchedule"};
  EXPECT_FALSE(tolerates({}, taint));
  EXPECT_TRUE(tolerates({}, {.key = "gpu", .effect = "PreferNoSchedule"}))
      << "PreferNoSchedule never excludes a pod";
  EXPECT_TRUE(tolerates({{.exists = true}}, taint)) << "all taints";
  EXPECT_TRUE(tolerates({{.key = "gpu", .exists = true}}, taint));
  EXPECT_TRUE(tolerates({{.key = "gpu", .value = "v100"}}, taint));
  EXPECT_FALSE(tolerates({{.key = "gpu", .value = "t4"}}, taint));
  EXPECT_FALSE(tolerates({{.key = "gpu", .effect = "NoExecute", .exists = true}}, taint));
  EXPECT_FALSE(tolerates({{.key = "other", .exists = true}}, taint));
}

TEST(PodDecoder, KeepsNothingOfThePreviousPod) {
  PodSink sink;
  ASSERT_TRUE(decode_one(kPod, sink));
  ASSERT_TRUE(decode_one(R"({"metadata":{"name":"b","uid":"u2","resourceVersion":"43"}})", sink));
  EXPECT_EQ(sink.pod.namespace_name, "");
  EXPECT_EQ(sink.pod.node_name, "");
  EXPECT_FALSE(sink.pod.deleting);
  EXPECT_TRUE(sink.pod.containers.empty());
  EXPECT_TRUE(sink.pod.annotations.empty());
  EXPECT_TRUE(sink.pod.labels.empty());
  EXPECT_EQ(sink.pod.overhead_cpu_milli, 0);
}

TEST(PodDecoder, ReportsAMalformedAmountAndStillReadsTheMetadata) {
  PodSink sink;
  ObjectMeta meta;
  const Status read = decode_one(
      R"({"metadata":{"name":"b","uid":"u2","resourceVersion":"43"},
          "spec":{"containers":[{"name":"c","resources":{"limits":{"aliyun.com/gpu-mem":"lots"}}}],"nodeName":"n"}})",
      sink, &meta);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text(), HasSubstr("aliyun.com/gpu-mem"));
  EXPECT_EQ(meta.name, "b");
  EXPECT_EQ(meta.version, 43U);
}

TEST(PodDecoder, RejectsFieldsOfTheWrongType) {
  PodSink sink;
  for (const char* spec : {R"({"containers":3})", R"({"containers":[3]})", R"({"nodeName":{}})", R"("x")"}) {
    EXPECT_FALSE(decode_one(
        std::string(R"({"metadata":{"name":"b","uid":"u2","resourceVersion":"43"},"spec":)") + spec + "}",
        sink))
        << spec;
  }
  EXPECT_TRUE(decode_one(R"({"metadata":{"name":"b","uid":"u","resourceVersion":"43","labels":null},
                             "spec":{"containers":null,"nodeName":null},"status":null})",
                         sink))
      << "the API server writes null for empty fields";
}

TEST(NodeDecoder, ReadsTheFieldsThatTheLedgerNeeds) {
  NodeSink sink;
  ObjectMeta meta;
  const Status read = decode_one(R"({
    "metadata":{"name":"gpu-a","uid":"u","resourceVersion":"7",
      "labels":{"node.kubernetes.io/instance-type":"dgx","x":"y"},
      "annotations":{"tessera.io/inventory":"{\"v\":1}"}},
    "spec":{},
    "status":{"capacity":{"aliyun.com/gpu-mem":"32","aliyun.com/gpu-count":"4","cpu":"64"},
              "allocatable":{"cpu":"63500m","memory":"131072Ki"},"images":[{"names":["a"],"sizeBytes":1}]}})",
                                 sink, &meta);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(sink.node.name, "gpu-a");
  EXPECT_EQ(sink.node.inventory, R"({"v":1})");
  EXPECT_EQ(sink.node.machine, "dgx");
  EXPECT_EQ(sink.node.gpu_memory_units, 32);
  EXPECT_EQ(sink.node.gpu_count, 4);
  EXPECT_EQ(sink.node.cpu_milli, 63500);
  EXPECT_EQ(sink.node.memory_bytes, 128 << 20);
}

// As both versions of the original topology plugin publish a node.
TEST(NodeDecoder, ReadsTheAnnotationsOfTheOriginalTopologyPlugin) {
  NodeSink sink;
  const Status read = decode_one(R"({
    "metadata":{"name":"topo","uid":"u","resourceVersion":"7","annotations":{
      "GPU_TOPOLOGY":"{\"GPU_NV2_0_1\":\"Two NVLinks\"}","NODE_TYPE":"ecs.gn5-c8g1.14xlarge",
      "GSOC_DEV_0_0":"0","GSOC_DEV_0_1":"8","GSOC_DEV_1_0":"8","GSOC_DEV":"x"}},
    "status":{"capacity":{"aliyun.com/gpu":"2"}}})",
                                 sink);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(sink.node.whole_gpus, 2);
  EXPECT_EQ(sink.node.original.gpu_topology, R"({"GPU_NV2_0_1":"Two NVLinks"})");
  EXPECT_EQ(sink.node.original.gsoc_links, "0_0=0\n0_1=8\n1_0=8\n");
  EXPECT_EQ(sink.node.original.type, "ecs.gn5-c8g1.14xlarge");
  ASSERT_TRUE(decode_one(R"({"metadata":{"name":"plain","uid":"u","resourceVersion":"8"}})", sink));
  EXPECT_EQ(sink.node.original, alloc::OriginalNode());
  EXPECT_EQ(sink.node.whole_gpus, 0);

  // tessera-agent writes them next to its inventory, where they are not needed.
  ASSERT_TRUE(decode_one(
      R"({"metadata":{"name":"a","uid":"u","resourceVersion":"9","annotations":{"GSOC_DEV_0_1":"8","tessera.io/inventory":"{}"}}})",
      sink));
  EXPECT_FALSE(sink.node.original.has_links());
}

TEST(NodeDecoder, AnAnnotationOfTheOriginalTopologyPluginIsOneLink) {
  NodeSink sink;
  ASSERT_TRUE(decode_one(
      R"({"metadata":{"name":"a","uid":"u","resourceVersion":"7","annotations":{"GSOC_DEV_0_1":"7\n2_3=7"}}})",
      sink));
  EXPECT_EQ(sink.node.original.gsoc_links, "0_1=7 2_3=7\n");
}

TEST(NodeDecoder, LimitsTheAnnotationsOfTheOriginalTopologyPlugin) {
  std::string annotations = "\"NODE_TYPE\":\"" + std::string(1000, 'x') + '"';
  for (int pair = 0; pair < 40; ++pair) {
    annotations += ",\"GSOC_DEV_0_" + std::to_string(pair) + "\":\"" + std::string(10'000, '1') + '"';
  }
  NodeSink sink;
  ASSERT_TRUE(decode_one(
      R"({"metadata":{"name":"a","uid":"u","resourceVersion":"7","annotations":{)" + annotations + "}}}",
      sink));
  EXPECT_GT(sink.node.original.gsoc_links.size(), alloc::OriginalNode::kMaxBytes);
  EXPECT_LT(sink.node.original.gsoc_links.size(), alloc::OriginalNode::kMaxBytes + 11'000);
  EXPECT_EQ(sink.node.original.type, "");
}

std::string captures() {
  return std::string(TESSERA_SHARED_DATA) + "/captures/";
}

// Decodes every line that real API servers sent.
TEST(ObjectDecoders, ReadRecordedWatches) {
  if (!std::filesystem::exists(captures())) {
    GTEST_SKIP() << "no captures at " << captures();
  }
  std::size_t lines = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(captures())) {
    if (file.path().extension() != ".jsonl" || file.path().string().find("watch") == std::string::npos) {
      continue;
    }
    PodSink pods;
    NodeSink nodes;
    const bool is_node = file.path().filename() == "nodes.watch.jsonl";
    WatchDecoder decoder;
    const std::string text = *read_file(file.path());
    for (const std::string_view line : split(text, '\n')) {
      if (line.empty()) {
        continue;
      }
      json::PaddedBuffer padded(line);
      const auto read = decoder.decode(padded.view(), is_node ? static_cast<ObjectSink&>(nodes) : pods);
      ASSERT_TRUE(read) << file.path() << ": " << read.error().text();
      EXPECT_TRUE((*read)->decoded) << file.path();
      if ((*read)->type == WatchType::kError) {
        EXPECT_TRUE((*read)->error.expired());
      } else {
        EXPECT_GT((*read)->meta.version, 0U);
      }
      ++lines;
    }
  }
  EXPECT_GT(lines, 100U);
}

TEST(ObjectDecoders, ReadRecordedLists) {
  const std::string folder = captures() + "v1.36.4-nodeCacheCapable-false/";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no captures at " << folder;
  }
  ListDecoder decoder;
  NodeSink sink;
  std::vector<std::string> names;
  json::PaddedBuffer nodes(*read_file(folder + "nodes.list.json"));
  const auto page = decoder.decode(nodes.view(), sink, [&](const ObjectMeta& meta, const Status& decoded) {
    EXPECT_TRUE(decoded);
    names.push_back(meta.name);
    EXPECT_GT(sink.node.memory_bytes, 0);
  });
  ASSERT_TRUE(page) << page.error().text();
  EXPECT_EQ(page->items, names.size());
  EXPECT_THAT(names, ::testing::Contains("node-a"));
  json::PaddedBuffer pods(*read_file(folder + "pods.list.json"));
  const auto empty = decoder.decode(pods.view(), sink, [](const ObjectMeta&, const Status&) { FAIL(); });
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->version, 765U);
}

LabelHashes labels_of(const std::vector<std::pair<std::string, std::string>>& labels) {
  LabelHashes hashes;
  for (const auto& [key, value] : labels) {
    hashes.push_back(hash_of_label(key, value));
  }
  return hashes;
}

TEST(PodDecoder, ReadsHashesOfAllLabelsOnRequest) {
  class LabelSink : public PodSink {
   public:
    Status decode(ObjectJson& object, ObjectMeta& meta) override {
      return decode_pod(object, names, meta, pod, {.labels = &labels});
    }
    LabelHashes labels = {hash_of_label("of", "another")};
  };
  LabelSink sink;
  ASSERT_TRUE(decode_one(
      R"({"metadata":{"name":"p","namespace":"d","uid":"u","resourceVersion":"1","labels":{"app":"web","aliyun.com/gpu-count":"2","empty":""}}})",
      sink));
  EXPECT_EQ(sink.labels, labels_of({{"app", "web"}, {"aliyun.com/gpu-count", "2"}, {"empty", ""}}));
  EXPECT_THAT(sink.pod.labels, ElementsAre(Pair("aliyun.com/gpu-count", "2")));
  ASSERT_TRUE(
      decode_one(R"({"metadata":{"name":"q","namespace":"d","uid":"v","resourceVersion":"2"}})", sink));
  EXPECT_TRUE(sink.labels.empty());
  EXPECT_TRUE(sink.pod.labels.empty());
}

class BudgetSink : public PodSink {
 public:
  Status decode(ObjectJson& object, ObjectMeta& meta) override {
    return decode_disruption_budget(object, meta, budget);
  }
  DisruptionBudget budget;
};

std::string budget_json(const std::string& rest) {
  return R"({"metadata":{"name":"b","namespace":"d","uid":"u","resourceVersion":"1"},)" + rest + "}";
}

TEST(DisruptionBudget, CoversThePodsItsSelectorNames) {
  BudgetSink sink;
  ASSERT_TRUE(decode_one(
      budget_json(
          R"("spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"web"},"matchExpressions":[)"
          R"({"key":"tier","operator":"In","values":["a","b"]},{"key":"zone","operator":"NotIn","values":["x"]},)"
          R"({"key":"owner","operator":"Exists"},{"key":"spare","operator":"DoesNotExist"}]}},)"
          R"("status":{"disruptionsAllowed":3,"disruptedPods":{"going":"2026-01-01T00:00:00Z"}})"),
      sink));
  EXPECT_EQ(sink.budget.allowed, 3);
  using Labels = std::vector<std::pair<std::string, std::string>>;
  const auto covers = [&](const std::string& pod, const Labels& labels) {
    return sink.budget.covers(pod, labels_of(labels));
  };
  EXPECT_TRUE(covers("p", {{"app", "web"}, {"owner", ""}, {"tier", "b"}}));
  EXPECT_TRUE(covers("p", {{"app", "web"}, {"owner", ""}, {"tier", "b"}, {"zone", "y"}}));
  EXPECT_FALSE(covers("going", {{"app", "web"}, {"owner", ""}, {"tier", "b"}}))
      << "disruptionsAllowed already accounts for it";
  EXPECT_FALSE(covers("p", {{"app", "web"}, {"owner", ""}, {"tier", "b"}, {"zone", "x"}}));
  EXPECT_FALSE(covers("p", {{"app", "web"}, {"owner", ""}, {"tier", "b"}, {"spare", "1"}}));
  EXPECT_FALSE(covers("p", {{"app", "web"}, {"tier", "b"}}));
  EXPECT_FALSE(covers("p", {{"app", "web"}, {"owner", ""}, {"tier", "c"}}));
  EXPECT_FALSE(covers("p", {{"app", "website"}, {"owner", ""}, {"tier", "b"}}));
  EXPECT_FALSE(covers("p", {}));
}

TEST(DisruptionBudget, CoversNoPodWithoutSelectorAndAllPodsWithAnEmptyOne) {
  BudgetSink sink;
  ASSERT_TRUE(decode_one(budget_json(R"("spec":{"selector":{}})"), sink));
  EXPECT_TRUE(sink.budget.covers("p", {}));
  for (const char* spec : {R"("spec":{"selector":null})", R"("spec":{})"}) {
    ASSERT_TRUE(decode_one(budget_json(spec), sink));
    EXPECT_FALSE(sink.budget.covers("p", labels_of({{"app", "web"}}))) << spec;
  }
}

TEST(DisruptionBudget, RejectsAnUnknownOperator) {
  BudgetSink sink;
  const Status decoded = decode_one(
      budget_json(R"("spec":{"selector":{"matchExpressions":[{"key":"a","operator":"Gt","values":["1"]}]}})"),
      sink);
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().text(),
              HasSubstr("the selector has an operator other than In, NotIn, Exists and DoesNotExist"));
}

}  // namespace
}  // namespace tessera::objects
