#include "agent/gpu/gpu_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../devices/fake_node.h"
#include "agent/gpu/gpu_devices.h"
#include "agent/gpu/gpu_kind.h"
#include "gpu_node.h"
#include "kube/event_recorder.h"

namespace tessera::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr const char* kNodePath = "/api/v1/nodes/gpu-a";
constexpr const char* kConfigMapPath = "/api/v1/namespaces/kube-system/configmaps/unhealthy-gpu-gpu-a";

gpu::DriverState state_of(alloc::Inventory inventory) {
  gpu::DriverState state;
  state.ready = true;
  state.inventory = std::move(inventory);
  return state;
}

alloc::Inventory with_unhealthy(unsigned gpus, std::size_t which, const std::string& reason) {
  alloc::Inventory inventory = v100s(gpus);
  inventory.gpus[which].unhealthy = reason;
  return inventory;
}

TEST(HealthChanges, DescribeWhatHappenedToEachGpu) {
  using Kind = HealthChange::Kind;
  const auto kinds = [](const alloc::Inventory& before, const alloc::Inventory& after) {
    std::vector<Kind> all;
    for (const HealthChange& change : health_changes(node_devices(before), node_devices(after))) {
      all.push_back(change.kind);
    }
    return all;
  };
  EXPECT_THAT(kinds(v100s(2), v100s(2)), IsEmpty());
  EXPECT_THAT(kinds({}, v100s(2)), IsEmpty());
  EXPECT_THAT(kinds({}, with_unhealthy(2, 1, "XID 79")), ElementsAre(Kind::kUnhealthy));
  EXPECT_THAT(kinds(v100s(2), with_unhealthy(2, 1, "XID 79")), ElementsAre(Kind::kUnhealthy));
  EXPECT_THAT(kinds(with_unhealthy(2, 1, "XID 79"), with_unhealthy(2, 1, "lost")),
              ElementsAre(Kind::kOtherReason));
  EXPECT_THAT(kinds(with_unhealthy(2, 1, "XID 79"), v100s(2)), ElementsAre(Kind::kRecovered));
  EXPECT_THAT(kinds(v100s(2), v100s(1)), ElementsAre(Kind::kGone));
  EXPECT_THAT(kinds(v100s(1), v100s(2)), ElementsAre(Kind::kAppeared));
}

TEST(GpusCondition, SaysWhatIsWrongInOneLine) {
  EXPECT_EQ(gpus_condition(state_of(v100s(8)), ""),
            (NodeCondition{.healthy = true, .reason = "AllGPUsHealthy", .message = "8 GPUs"}));
  EXPECT_EQ(gpus_condition(state_of(with_unhealthy(8, 3, "XID 79")), ""),
            (NodeCondition{
                .healthy = false,
                .reason = "GPUUnhealthy",
                .message = "1 of 8 GPUs must not be used; GPU 3 (Tesla V100-SXM2-32GB, GPU-3): XID 79"}));
  gpu::DriverState away;
  away.problem = "no driver is loaded";
  EXPECT_EQ(gpus_condition(away, "").reason, "DriverNotReady");
  EXPECT_EQ(gpus_condition(state_of({}), "").reason, "NoGPUs");
  gpu::DriverState unlisted = state_of(v100s(7));
  unlisted.problems = {"GPU 3 is lost"};
  EXPECT_EQ(gpus_condition(unlisted, ""),
            (NodeCondition{.healthy = false,
                           .reason = "GPUUnhealthy",
                           .message = "1 of 8 GPUs must not be used; GPU 3 is lost"}));
  EXPECT_EQ(gpus_condition(state_of(v100s(8)), "call X hangs").reason, "DriverHangs");
}

TEST(GpusCondition, KeepsItsMessageShortOnLargeMachines) {
  alloc::Inventory all_unhealthy = v100s(16);
  for (alloc::Gpu& gpu : all_unhealthy.gpus) {
    gpu.unhealthy = std::string(400, 'x');
  }
  EXPECT_LT(gpus_condition(state_of(all_unhealthy), "").message.size(), 1024U);
}

// An XID arrives as an event, and the next probe finds that the driver asks for a reset. This is one
// fault, and two Events about it looked like two.
TEST(HealthChanges, CountTheConsequencesOfAFaultAsTheSameFault) {
  using Kind = HealthChange::Kind;
  const auto kinds = [](const std::string& before, const std::string& after) {
    std::vector<Kind> all;
    for (const HealthChange& change : health_changes(node_devices(with_unhealthy(2, 1, before)),
                                                     node_devices(with_unhealthy(2, 1, after)))) {
      all.push_back(change.kind);
    }
    return all;
  };
  EXPECT_THAT(kinds("XID 79", "XID 79; the driver asks for a GPU reset"), IsEmpty());
  EXPECT_THAT(kinds("XID 79; the driver asks for a GPU reset", "XID 79"), IsEmpty());
  EXPECT_THAT(kinds("XID 79; GPU is lost", "GPU is lost"), IsEmpty());
  EXPECT_THAT(kinds("GPU is lost", "XID 79; GPU is lost"), ElementsAre(Kind::kOtherReason))
      << "the cause is news";
  EXPECT_THAT(kinds("XID 48; GPU is lost", "XID 79; GPU is lost"), ElementsAre(Kind::kOtherReason));
  EXPECT_THAT(kinds("XID 7", "XID 79"), ElementsAre(Kind::kOtherReason));
}

class GpuHealthTest : public ::testing::Test {
 protected:
  GpuHealthTest() {
    cluster_.put(
        kNodePath,
        R"({"metadata":{"name":"gpu-a"},"status":{"conditions":[{"type":"Ready","status":"True"}]}})");
  }

  GpuHealthReporter reporter(const alloc::Inventory& before = {}) {
    return {
        node_.context, allocations_, {.recheck_every = 20s, .backoff = {.first = 1ms, .cap = 5ms}}, before};
  }
  void settle(const GpuHealthReporter& reporter) {
    cluster_.run_until(
        [&] { return reporter.condition_state().settled && reporter.config_map_state().settled; });
  }
  boost::json::object condition() {
    const boost::json::value node = cluster_.get(kNodePath);
    for (const auto& one : node.at("status").at("conditions").as_array()) {
      if (one.at("type") == "GPUsHealthy") {
        return one.as_object();
      }
    }
    return {};
  }

  FakeNode node_;
  TestCluster& cluster_ = node_.cluster;
  Allocations allocations_{GpuKind::keys()};
};

TEST_F(GpuHealthTest, SetsTheConditionNextToOthersAndCreatesNoConfigMapForAHealthyNode) {
  GpuHealthReporter health = reporter();
  health.report(state_of(v100s(2)));
  settle(health);
  EXPECT_EQ(condition().at("status"), "True");
  EXPECT_EQ(cluster_.get(kNodePath).at("status").at("conditions").as_array().size(), 2U);
  EXPECT_FALSE(cluster_.has(kConfigMapPath));
  EXPECT_THAT(node_.events(), IsEmpty());
  EXPECT_EQ(cluster_.writes(), 1U);
}

TEST_F(GpuHealthTest, ReportsAnUnhealthyGpuInEventsConditionAndConfigMap) {
  GpuHealthReporter health = reporter();
  health.report(state_of(v100s(4)));
  allocations_.record({.pod = {"ml", "train-7"},
                       .pod_uid = "u",
                       .container = "main",
                       .shares = {{.device = "GPU-3", .units = 3}}});
  alloc::Inventory unhealthy = with_unhealthy(4, 3, "XID 79 (the GPU has fallen off the bus)");
  unhealthy.gpus[1].unhealthy = "GPU is lost";
  health.report(state_of(unhealthy));
  settle(health);
  EXPECT_THAT(node_.events(),
              ElementsAre(AllOf(StartsWith("! GpuUnhealthy Node/gpu-a GPU 1 "), HasSubstr("GPU is lost")),
                          AllOf(StartsWith("! GpuUnhealthy Node/gpu-a GPU 3 "), HasSubstr("XID 79")),
                          AllOf(StartsWith("! GpuUnhealthy Pod/train-7 GPU 3 "), HasSubstr("node gpu-a"),
                                HasSubstr("Delete the pod"))));
  EXPECT_EQ(condition().at("status"), "False");
  EXPECT_EQ(cluster_.get(kConfigMapPath).at("data").at("gpus"), "1,3");
}

// The ConfigMap must not be empty: the original extenders read an entry that is not a number as GPU
// 0, and an empty text is one such entry.
TEST_F(GpuHealthTest, RemovesTheConfigMapWhenAllAreHealthyAgain) {
  GpuHealthReporter health = reporter();
  health.report(state_of(with_unhealthy(2, 0, "XID 48")));
  settle(health);
  ASSERT_TRUE(cluster_.has(kConfigMapPath));
  health.report(state_of(v100s(2)));
  settle(health);
  EXPECT_FALSE(cluster_.has(kConfigMapPath));
  EXPECT_EQ(condition().at("status"), "True");
  EXPECT_THAT(node_.events().back(), StartsWith("GpuHealthy Node/gpu-a GPU 0 "));
}

TEST_F(GpuHealthTest, KeepsTheTimeOfTheTransitionWhenOnlyTheReasonChanges) {
  GpuHealthReporter health = reporter();
  health.report(state_of(with_unhealthy(2, 0, "XID 48")));
  settle(health);
  cluster_.change(kNodePath, R"({"status":{"conditions":[{"type":"GPUsHealthy","status":"False","reason":"x",
                                                      "lastTransitionTime":"2020-01-01T00:00:00Z"}]}})");
  health.report(state_of(with_unhealthy(2, 0, "GPU is lost")));
  settle(health);
  EXPECT_THAT(std::string(condition().at("message").as_string()), HasSubstr("GPU is lost"));
  EXPECT_EQ(condition().at("lastTransitionTime"), "2020-01-01T00:00:00Z");
  health.report(state_of(v100s(2)));
  settle(health);
  EXPECT_NE(condition().at("lastTransitionTime"), "2020-01-01T00:00:00Z");
}

TEST_F(GpuHealthTest, IsSilentAfterARestartIfNothingChanged) {
  const alloc::Inventory unhealthy = with_unhealthy(2, 0, "XID 48");
  GpuHealthReporter first = reporter();
  first.report(state_of(unhealthy));
  settle(first);
  node_.notes.clear();
  const std::size_t writes = cluster_.writes();
  GpuHealthReporter second = reporter(unhealthy);
  second.report(state_of(unhealthy));
  settle(second);
  EXPECT_THAT(node_.events(), IsEmpty());
  EXPECT_EQ(cluster_.writes(), writes);
}

TEST_F(GpuHealthTest, ReportsAFailedDriverOnceAndNotForEachGpu) {
  GpuHealthReporter health = reporter();
  health.report(state_of(v100s(8)));
  gpu::DriverState away;
  away.problem = "the NVIDIA driver is not loaded; load it";
  away.inventory = v100s(8);
  for (alloc::Gpu& gpu : away.inventory.gpus) {
    gpu.unhealthy = away.problem;
  }
  health.report(away);
  settle(health);
  EXPECT_THAT(node_.events(),
              ElementsAre(StartsWith("! GpuDriverNotReady Node/gpu-a the NVIDIA driver is not loaded")));
  EXPECT_EQ(condition().at("reason"), "DriverNotReady");
  EXPECT_EQ(cluster_.get(kConfigMapPath).at("data").at("gpus"), "0,1,2,3,4,5,6,7");
  health.report(state_of(v100s(8)));
  settle(health);
  EXPECT_THAT(node_.events().back(), StartsWith("GpuDriverReady"));
  EXPECT_EQ(node_.notes.size(), 2U);
}

TEST_F(GpuHealthTest, ReportsAHangingDriverOnce) {
  GpuHealthReporter health = reporter();
  health.report(state_of(v100s(1)));
  for (int seconds = 5; seconds < 9; ++seconds) {
    health.set_hang(
        fail(ErrorCode::kTimeout, fmt::format("driver call x has not answered for {} s", seconds)));
  }
  settle(health);
  EXPECT_EQ(condition().at("reason"), "DriverHangs");
  EXPECT_EQ(cluster_.get(kConfigMapPath).at("data").at("gpus"), "0");
  EXPECT_EQ(node_.notes.size(), 1U);
  EXPECT_FALSE(health.set_hang(fail(ErrorCode::kTimeout, "driver call x has not answered for 9 s")));
  EXPECT_EQ(health.hang(), "driver call x has not answered for 5 s")
      << "the inventory must not keep changing";
  EXPECT_TRUE(health.set_hang({}));
  settle(health);
  EXPECT_EQ(condition().at("status"), "True");
  EXPECT_FALSE(cluster_.has(kConfigMapPath));
}

TEST(DuringHang, KeepsTheReasonOfAGpuThatWasUnhealthyBefore) {
  const alloc::Inventory inventory = during_hang(with_unhealthy(2, 1, "XID 79"), "the call hangs");
  EXPECT_EQ(inventory.gpus[0].unhealthy, "the call hangs");
  EXPECT_EQ(inventory.gpus[1].unhealthy, "XID 79");
  EXPECT_EQ(during_hang(v100s(2), ""), v100s(2));
}

TEST_F(GpuHealthTest, LeavesAConfigMapOfAnotherOwnerAlone) {
  cluster_.put(kConfigMapPath, R"({"metadata":{"name":"unhealthy-gpu-gpu-a"},"data":{"gpus":"5"}})");
  GpuHealthReporter health = reporter();
  health.report(state_of(v100s(2)));
  settle(health);
  EXPECT_EQ(cluster_.get(kConfigMapPath).at("data").at("gpus"), "5");
  health.report(state_of(with_unhealthy(2, 1, "XID 48")));
  cluster_.run_until([&] { return !health.config_map_state().problem.empty(); });
  EXPECT_THAT(health.config_map_state().problem,
              HasSubstr("kube-system/unhealthy-gpu-gpu-a was not created by"));
  EXPECT_EQ(cluster_.get(kConfigMapPath).at("data").at("gpus"), "5");
}

TEST_F(GpuHealthTest, ReconcilesChangesByOtherClients) {
  GpuHealthReporter health(node_.context, allocations_,
                           {.recheck_every = 20ms, .backoff = {.first = 1ms, .cap = 5ms}}, {});
  health.report(state_of(with_unhealthy(2, 1, "XID 48")));
  settle(health);
  cluster_.change(kNodePath, R"({"status":{"conditions":[{"type":"GPUsHealthy","status":"True"}]}})");
  cluster_.change(kConfigMapPath, R"({"data":{"gpus":"7"}})");
  cluster_.run_until([&] {
    return condition().at("status") == "False" && cluster_.get(kConfigMapPath).at("data").at("gpus") == "1";
  });
}

TEST(GpuHealthReporterOptions, ReconcileAtLeastOnceAMinute) {
  EXPECT_LE(GpuHealthReporterOptions{}.recheck_every, 60s);
  EXPECT_LE(HealthReporterOptions{}.recheck_every, 60s);
}

TEST_F(GpuHealthTest, WritesEventsToTheApiServer) {
  kube::EventRecorder recorder(
      node_.client, {.aggregator = {.component = "tessera-agent", .instance = "gpu-a"}, .pace = 1ms});
  const NodeContext context{.node = "gpu-a",
                            .loop = cluster_.loop(),
                            .client = node_.client,
                            .events = recorder,
                            .pods = node_.pods,
                            .pod_resources = node_.context.pod_resources,
                            .pod_fetch = node_.context.pod_fetch,
                            .checkpoints = node_.context.checkpoints,
                            .names = node_.names};
  GpuHealthReporter health(context, allocations_, {.condition = false, .config_map = false}, v100s(2));
  health.report(state_of(v100s(1)));
  cluster_.run_until([&] { return recorder.idle(); });
  EXPECT_THAT(cluster_.events(), ElementsAre(StartsWith("Warning GpuGone Node/gpu-a: GPU 1 ")));
  EXPECT_EQ(cluster_.count("GET"), 0U);
}

}  // namespace
}  // namespace tessera::agent
