// Tests the repair of records that differ from the GPUs that a pod has.
#include "agent/gpu/record_repair.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../devices/test_cluster.h"
#include "agent/gpu/record_writer.h"
#include "node_model.h"

namespace tessera::agent {
namespace {

using testing::Contains;
using testing::HasSubstr;

// Returns the GPU in the pod's current record.
std::string recorded(const Node& node, const Pod& pod) {
  const NodePod* known = node.pods->find(pod.spec.uid);
  const auto text = known->spec.annotations.find(alloc::key::kAllocation);
  return text == known->spec.annotations.end()
             ? ""
             : alloc::Record::parse(text->second).value().containers.front().shares.front().gpu;
}

TEST(RecordRepair, RepairsTheRecordOfAPodThatGotTheGpuOfAnother) {
  Node node(gpus(4));
  node.has_get = false;
  const Pod rejected = share("rejected", 3, 2);  // bound first, but kubelet rejects it for another reason
  Pod served = share("served", 3, 1);
  served.spec.annotations["ALIYUN_COM_GPU_MEM_IDX"] = "1";
  node.bind(rejected);
  node.bind(served);
  EXPECT_EQ(sees(node.admit(served)), uuid(2)) << "only the bind order is known";
  EXPECT_TRUE(node.pre_start(served, "main"));
  EXPECT_EQ(recorded(node, served), uuid(2)) << "the record must name the GPU that the pod has";
  EXPECT_EQ(node.repairs["served"].annotations["ALIYUN_COM_GPU_MEM_IDX"], "2");
  EXPECT_TRUE(node.repairs["served"].changes_gpus);
  EXPECT_THAT(node.recorded, Contains("served GpuRecordRepaired"));
  EXPECT_EQ(node.allocations().find("uid-rejected", "main"), nullptr);
  EXPECT_EQ(node.allocations().find("uid-served", "main")->shares.front().device, uuid(2));
  EXPECT_EQ(node.kind->counts().repaired, 1U);
}

// kubelet does not answer in time, and the agent guesses the wrong pod. The next call reveals it.
TEST(RecordRepair, DetectsThatAPodGotTheGpuOfAnother) {
  Node node(gpus(4));
  const Pod first = share("first", 3, 2);
  const Pod second = share("second", 3, 1);
  node.bind(first);
  node.bind(second);
  node.gets_late = 1000;
  ASSERT_EQ(sees(node.admit(second)), uuid(2));
  node.gets_late = 0;
  EXPECT_EQ(sees(node.admit(first)), uuid(2));
  EXPECT_TRUE(node.pre_start(first, "main"));
  EXPECT_TRUE(node.pre_start(second, "main"));
  EXPECT_EQ(recorded(node, first), uuid(2));
  EXPECT_EQ(recorded(node, second), uuid(2)) << "the record must name the GPU that the pod sees";
  EXPECT_EQ(node.kind->counts().repaired, 1U);
}

// kubelet rejects a pod before it calls Allocate, and the agent confuses the next pod with it.
TEST(RecordRepair, KnowsTheGpuOfAPodAfterThePodItWasConfusedWithHasEnded) {
  for (const bool restarts : {false, true}) {
    Node node(gpus(4));
    node.has_get = false;
    const Pod rejected = share("rejected", 3, 2);
    const Pod served = share("served", 3, 1);
    node.bind(rejected);
    node.bind(served);
    ASSERT_EQ(sees(node.admit(served)), uuid(2)) << "the agent guesses";
    if (restarts) {
      node.restart_agent(node.saved);
      node.bind(served);
      node.pods->synced();
    } else {
      node.end(rejected);
    }
    EXPECT_TRUE(node.pre_start(served, "main"));
    EXPECT_EQ(node.allocations().find("uid-served", "main")->shares.front().device, uuid(2)) << restarts;
    EXPECT_THAT(node.recorded, Contains("served GpuRecordRepaired")) << restarts;
    EXPECT_EQ(node.allocations().size(), 1U) << restarts;
    node.end(served);
    EXPECT_EQ(node.allocations().size(), 0U) << restarts;
  }
}

TEST(RecordRepair, DoesNotStartAPodBeforeItsRecordIsRepaired) {
  Node node(gpus(4));
  node.has_get = false;
  const Pod rejected = share("rejected", 3, 2);
  const Pod served = share("served", 3, 1);
  node.bind(rejected);
  node.bind(served);
  ASSERT_EQ(sees(node.admit(served)), uuid(2));
  node.api_away = true;
  const Status blocked = node.pre_start(served, "main");
  ASSERT_FALSE(blocked) << "the ledger still counts the pod on another GPU";
  EXPECT_THAT(blocked.error().text(), HasSubstr("ml/served"));
  EXPECT_THAT(node.recorded, testing::Not(Contains("served GpuRecordRepaired"))) << "nothing is written yet";
  EXPECT_EQ(node.kind->counts().repaired, 0U);
  EXPECT_THAT(blocked.error().text(), HasSubstr("no API server"));
  EXPECT_EQ(recorded(node, served), uuid(1));
  node.api_away = false;
  EXPECT_TRUE(node.pre_start(served, "main"));
  EXPECT_EQ(recorded(node, served), uuid(2));
}

TEST(RecordRepair, BlocksAPodThatGotAGpuItMayNotUse) {
  Node node(gpus(4));
  node.has_get = false;
  const Pod rejected = share("rejected", 3, 2);
  Pod choosy = share("choosy", 3, 1);
  choosy.spec.annotations[std::string(alloc::key::kGpuUuids)] = uuid(1);
  node.bind(rejected);
  node.bind(choosy);
  ASSERT_EQ(sees(node.admit(choosy)), uuid(2));
  const Status blocked = node.pre_start(choosy, "main");
  ASSERT_FALSE(blocked) << "the pod requires another GPU";
  EXPECT_THAT(blocked.error().text(), HasSubstr("ml/choosy"));
  EXPECT_THAT(blocked.error().text(), HasSubstr("delete the pod"));
  EXPECT_THAT(node.recorded, Contains("choosy GpuAllocationMismatch"));
  EXPECT_EQ(recorded(node, choosy), uuid(1));
}

// Three pods fill their GPUs, and each got the GPU of the next one, in a ring.
TEST(RecordRepair, RepairsTheRecordsOfAllPodsThatWereConfused) {
  Node node(gpus(4));
  node.has_get = false;
  const Pod a = share("a", 16, 0);
  const Pod b = share("b", 16, 1);
  const Pod c = share("c", 16, 2);
  for (const Pod& pod : {a, b, c}) {
    node.bind(pod);
  }
  EXPECT_EQ(sees(node.admit(c)), uuid(0));
  EXPECT_EQ(sees(node.admit(a)), uuid(1));
  EXPECT_EQ(sees(node.admit(b)), uuid(2));
  for (const Pod& pod : {b, a, c}) {
    EXPECT_TRUE(node.pre_start(pod, "main")) << pod.spec.name;
  }
  EXPECT_EQ(recorded(node, a), uuid(1));
  EXPECT_EQ(recorded(node, b), uuid(2));
  EXPECT_EQ(recorded(node, c), uuid(0));
  for (const Pod& pod : {a, b, c}) {
    EXPECT_EQ(node.allocations().find(pod.spec.uid, "main")->shares.front().device, recorded(node, pod));
  }
}

// The original schedulers wait for ASSIGNED, and name GPUs by index. After the driver has
// renumbered its GPUs, the index means another GPU.
TEST(RecordRepair, WritesARecordForAPodThatAnOriginalSchedulerPlaced) {
  Node node(gpus(4));
  Pod pod = Pod("old").main("main", 3);
  pod.spec.annotations["ALIYUN_COM_GPU_MEM_IDX"] = "2";
  pod.spec.annotations["ALIYUN_COM_GPU_MEM_POD"] = "3";
  node.bind(pod);
  ASSERT_TRUE(node.admit(pod));
  EXPECT_TRUE(node.pre_start(pod, "main"));
  node.settle();
  EXPECT_EQ(recorded(node, pod), uuid(2));
  const auto& written = node.repairs["old"].annotations;
  EXPECT_EQ(written.at("ALIYUN_COM_GPU_MEM_ASSIGNED"), "true");
  EXPECT_TRUE(written.contains("ALIYUN_COM_GPU_MEM_ASSUME_TIME"));
  EXPECT_FALSE(written.contains("ALIYUN_COM_GPU_MEM_IDX")) << "the index is correct and is not written";
  EXPECT_FALSE(node.repairs["old"].changes_gpus);
}

TEST(RecordRepair, DoesNotWaitForARecordThatOnlyAddsDetail) {
  Node node(gpus(1));
  const Pod pod = Pod("a").main("main", 3);
  node.bind(pod);
  ASSERT_EQ(sees(node.admit(pod)), uuid(0));
  node.api_away = true;
  EXPECT_TRUE(node.pre_start(pod, "main"));
  node.api_away = false;
  EXPECT_TRUE(node.pre_start(pod, "main")) << "as after a restart of the container";
  node.settle();
  EXPECT_EQ(recorded(node, pod), uuid(0)) << "the record stays valid when a second GPU is added";
}

TEST(RecordRepair, RepairsIndicesWhenTheDriverHasRenumberedItsGpus) {
  Node node(gpus(4));
  Pod pod = share("a", 3, 2);
  pod.spec.annotations["ALIYUN_COM_GPU_MEM_IDX"] = "2";
  pod.spec.annotations["ALIYUN_COM_GPU_MEM_POD"] = "3";
  node.bind(pod);
  ASSERT_TRUE(node.admit(pod));
  ASSERT_TRUE(node.pre_start(pod, "main"));
  node.settle();
  EXPECT_TRUE(node.repairs.empty()) << "nothing is written while nothing differs";
  alloc::Inventory renumbered = gpus(4);
  std::swap(renumbered.gpus[2], renumbered.gpus[3]);
  renumbered.gpus[2].index = 2;
  renumbered.gpus[3].index = 3;
  node.set_inventory(renumbered);
  EXPECT_TRUE(node.pre_start(pod, "main"));
  node.settle();
  EXPECT_EQ(node.repairs["a"].annotations,
            (std::map<std::string, std::optional<std::string>>{{"ALIYUN_COM_GPU_MEM_IDX", "3"}}));
}

class Writer : public testing::Test {
 protected:
  Writer() {
    cluster.put(
        kPath, R"({"metadata":{"name":"a","uid":"uid-a","annotations":{"x":"1","ALIYUN_COM_GPU_IDX":"2"}}})");
    pod.spec = Pod("a").spec;
    repair.annotations = {{"ALIYUN_COM_GPU_GROUP", "3"}, {"ALIYUN_COM_GPU_IDX", std::nullopt}};
  }
  static constexpr const char* kPath = "/api/v1/namespaces/ml/pods/a";

  TestCluster cluster;
  kube::Client client = cluster.client();
  ApiRecordWriter writer{client};
  NodePod pod;
  RecordRepair repair;
};

TEST_F(Writer, ChangesTheAnnotationsOfThatPodOnly) {
  std::optional<Status> written;
  writer.write(pod, repair, [&](const Status& status) { written = status; });
  cluster.run_until([&] { return written.has_value(); });
  EXPECT_TRUE(*written);
  EXPECT_EQ(cluster.text(kPath, "annotations", "ALIYUN_COM_GPU_GROUP"), "3");
  EXPECT_EQ(cluster.text(kPath, "annotations", "ALIYUN_COM_GPU_IDX"), "-");
  EXPECT_EQ(cluster.text(kPath, "annotations", "x"), "1");
  EXPECT_THAT(cluster.seen().back().body, HasSubstr(R"("uid":"uid-a")"));
  EXPECT_EQ(writer.counts().written, 1U);
}

// A tenant can make a pod this large: the API server escapes "<" to six bytes.
TEST_F(Writer, RepairsTheRecordOfAVeryLargePod) {
  cluster.put(kPath, fmt::format(R"({{"metadata":{{"name":"a","uid":"uid-a","annotations":{{"x":"{}"}}}}}})",
                                 std::string(6U << 20U, 'x')));
  std::optional<Status> written;
  writer.write(pod, repair, [&](const Status& status) { written = status; });
  cluster.run_until([&] { return written.has_value(); });
  EXPECT_TRUE(*written) << written->error().text();
  EXPECT_EQ(cluster.text(kPath, "annotations", "ALIYUN_COM_GPU_GROUP"), "3");
}

TEST_F(Writer, ReportsTheResultToEveryCaller) {
  cluster.set_intercept([](const TestCluster::Seen&) { return TestCluster::refusal(403, "Forbidden"); });
  int reported = 0;
  for (int i = 0; i < 2; ++i) {
    writer.write(pod, repair, [&](const Status& status) {
      EXPECT_FALSE(status);
      ++reported;
    });
  }
  cluster.run_until([&] { return reported == 2; });
  EXPECT_EQ(writer.counts().failed, 1U);
}

}  // namespace
}  // namespace tessera::agent
