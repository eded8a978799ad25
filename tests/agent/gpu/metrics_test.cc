#include "agent/devices/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "../devices/fake_node.h"
#include "agent/devices/allocations_json.h"
#include "agent/devices/readings.h"
#include "agent/gpu/gpu_devices.h"
#include "agent/gpu/gpu_readings.h"
#include "base/strings.h"
#include "gpu_node.h"

namespace tessera::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kGibibyte = 1U << 30U;

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() {
    state_.ready = true;
    state_.inventory = v100s(2);
    state_.inventory.gpus[1].unhealthy = "XID 79";
    state_.xids = {{.uuid = "GPU-1", .xid = 79, .severity = gpu::XidClass::kFatal, .count = 2}};
    gpu::GpuUsage usage{.memory = {.total = 32 * kGibibyte, .reserved = 0, .used = 9 * kGibibyte},
                        .busy_percent = 40};
    sample_.gpus = {{.uuid = "GPU-0", .usage = usage, .outside_bytes = kGibibyte}, {.uuid = "GPU-1"}};
    uses_ = {{.who = {.pod = {"ml", "train-7"}, .pod_uid = "u", .container = "main"},
              .gpu = "GPU-0",
              .allowed_bytes = 3 * kGibibyte,
              .used_bytes = 4 * kGibibyte,
              .processes = 2,
              .busy_percent = 35},
             {.who = {.pod = {"ml", "big"}, .pod_uid = "v", .container = "c"},
              .gpu = "GPU-1",
              .allowed_bytes = std::nullopt,
              .used_bytes = 0,
              .processes = 0},
             {.who = {.pod = {}, .pod_uid = "w", .container = {}}, .gpu = "GPU-0", .used_bytes = kGibibyte}};
  }

  std::vector<std::string> lines() {
    const std::string text = metrics_.text(readings_.take());
    std::vector<std::string> all;
    for (const std::string_view line : split(text, '\n')) {
      all.emplace_back(line);
    }
    return all;
  }

  Metrics metrics_;
  Readings readings_;
  gpu::DriverState state_;
  UsageSample sample_;
  std::vector<MemoryUse> uses_;
};

TEST_F(MetricsTest, DescribeEachGpu) {
  add_gpus(readings_, state_, sample_, uses_);
  const auto all = lines();
  EXPECT_THAT(all,
              Contains(R"(tessera_gpu_info{gpu="0",uuid="GPU-0",model="Tesla V100-SXM2-32GB",pci=""} 1)"));
  EXPECT_THAT(all, Contains(R"(tessera_gpu_healthy{gpu="0",uuid="GPU-0"} 1)"));
  EXPECT_THAT(all, Contains(R"(tessera_gpu_healthy{gpu="1",uuid="GPU-1"} 0)"));
  EXPECT_THAT(all, Contains(R"(tessera_gpu_memory_total_bytes{gpu="0",uuid="GPU-0"} 34359738368)"));
  EXPECT_THAT(all, Contains(R"(tessera_gpu_memory_allocated_bytes{gpu="0",uuid="GPU-0"} 3221225472)"));
  EXPECT_THAT(all, Contains(R"(tessera_gpu_memory_allocated_bytes{gpu="1",uuid="GPU-1"} 34359738368)"));
  EXPECT_THAT(all, Contains(R"(tessera_gpu_memory_used_bytes{gpu="0",uuid="GPU-0"} 9663676416)"));
  EXPECT_THAT(all, Contains(R"(tessera_gpu_memory_outside_pods_bytes{gpu="0",uuid="GPU-0"} 1073741824)"));
  EXPECT_THAT(all, Contains(R"(tessera_gpu_utilization_ratio{gpu="0",uuid="GPU-0"} 0.4)"));
  EXPECT_THAT(all, Contains(R"(tessera_gpu_xids_total{gpu="1",uuid="GPU-1",xid="79",class="fatal"} 2)"));
  EXPECT_THAT(all, Not(Contains(HasSubstr(R"(memory_used_bytes{gpu="1")"))));  // it does not answer
}

TEST_F(MetricsTest, DescribeEachContainerWithoutUids) {
  const FakeNode node;
  MemoryWatch watch(node.context, {});
  watch.check(uses_, state_.inventory);
  add_containers(readings_, state_, uses_, watch);
  const auto all = lines();
  const std::string labels = R"({namespace="ml",pod="train-7",container="main",gpu="0",uuid="GPU-0"} )";
  EXPECT_THAT(all, Contains("tessera_container_gpu_memory_allocated_bytes" + labels + "3221225472"));
  EXPECT_THAT(all, Contains("tessera_container_gpu_memory_used_bytes" + labels + "4294967296"));
  EXPECT_THAT(all, Contains("tessera_container_gpu_processes" + labels + "2"));
  EXPECT_THAT(all, Contains("tessera_container_gpu_utilization_ratio" + labels + "0.35"));
  EXPECT_THAT(all, Contains("tessera_container_gpu_memory_exceeded" + labels + "1"));
  EXPECT_THAT(all, Contains("tessera_agent_memory_exceeded_total 2"));
  EXPECT_THAT(
      all,
      Contains(
          R"(tessera_container_gpu_memory_allocated_bytes{namespace="ml",pod="big",container="c",gpu="1",uuid="GPU-1"} 34359738368)"));
  EXPECT_THAT(all, Not(Contains(HasSubstr("\"w\""))));
}

TEST_F(MetricsTest, AnInitContainerThatHadEndedKeptItsGauges) {
  const FakeNode node;
  const MemoryWatch watch(node.context, {});
  uses_[1].kind = alloc::ContainerKind::kInit;
  uses_[1].finished = true;
  add_containers(readings_, state_, uses_, watch);
  add_gpus(readings_, state_, sample_, uses_);
  const auto all = lines();
  EXPECT_THAT(all, Not(Contains(HasSubstr(R"(pod="big")"))));
  EXPECT_THAT(all, Contains(HasSubstr(R"(pod="train-7")")));
  EXPECT_THAT(all, Contains(R"(tessera_gpu_memory_allocated_bytes{gpu="1",uuid="GPU-1"} 34359738368)"))
      << "Kubernetes reserves it for the life of the pod";
}

TEST_F(MetricsTest, DescribeDriverPluginsWritesAndCalls) {
  add_driver(readings_, state_, {.calls = 10, .failures = 1}, true, 1500ms);
  readings_.add_resources({{.name = "aliyun.com/gpu",
                            .status = {.registered = true, .registrations = 3, .problem = ""},
                            .devices = 8,
                            .healthy = 7,
                            .problem = ""}});
  readings_.add_admissions({.allocated = 7, .blocked = {{"undecided", 2}}}, {.confirmed = 6, .guessed = 1});
  readings_.add_starts({.started = 0, .blocked = 2});
  add_gpu_counts(readings_, {.repaired = 4});
  readings_.add_objects({{"inventory", {.settled = true, .problem = "", .writes = 4}}});
  readings_.add_events("tessera_agent_events_dropped_total", {.silenced = 1, .dropped_full = 1, .failed = 5});
  metrics_.count_kubelet_call("allocate", "aliyun.com/gpu", true, 2ms);
  metrics_.count_kubelet_call("allocate", "aliyun.com/gpu", false, 2ms);
  http::Access access;
  access.route = "metrics";
  access.status = 200;
  metrics_.count_request(access);
  const auto all = lines();
  EXPECT_THAT(all, Contains("tessera_agent_driver_ready 0"));
  EXPECT_THAT(all, Contains("tessera_agent_driver_hung 1"));
  EXPECT_THAT(all, Contains("tessera_agent_driver_failures_total 1"));
  EXPECT_THAT(all, Contains("tessera_agent_sample_age_seconds 1.5"));
  EXPECT_THAT(all, Contains(R"(tessera_agent_registrations_total{resource="aliyun.com/gpu"} 3)"));
  EXPECT_THAT(all, Contains(R"(tessera_agent_devices_healthy{resource="aliyun.com/gpu"} 7)"));
  EXPECT_THAT(all, Contains(R"(tessera_agent_containers_total{result="allocated"} 7)"));
  EXPECT_THAT(all, Contains(R"(tessera_agent_containers_total{result="undecided"} 2)"));
  EXPECT_THAT(all, Contains(R"(tessera_agent_containers_total{result="lost_gpu"} 0)"));
  EXPECT_THAT(all, Contains("tessera_agent_records_repaired_total 4"));
  EXPECT_THAT(all, Contains(R"(tessera_agent_starts_total{result="blocked"} 2)"));
  EXPECT_THAT(all, Contains(R"(tessera_agent_container_lookups_total{result="guessed"} 1)"));
  EXPECT_THAT(all, Contains(R"(tessera_agent_object_writes_total{object="inventory"} 4)"));
  EXPECT_THAT(all, Contains(R"(tessera_agent_events_dropped_total{reason="too_many"} 2)"));
  EXPECT_THAT(
      all,
      Contains(
          R"(tessera_agent_kubelet_calls_total{call="allocate",resource="aliyun.com/gpu",result="error"} 1)"));
  EXPECT_THAT(
      all,
      Contains(
          R"(tessera_agent_kubelet_call_duration_seconds_bucket{call="allocate",resource="aliyun.com/gpu",le="0.0025"} 2)"));
  EXPECT_THAT(all, Contains(R"(tessera_agent_requests_total{route="metrics",status="200"} 1)"));
}

TEST_F(MetricsTest, NameEachFamilyOnce) {
  add_gpus(readings_, state_, sample_, uses_);
  add_driver(readings_, state_, {}, false, std::nullopt);
  std::vector<std::string> helps;
  for (const std::string& line : lines()) {
    if (line.starts_with("# TYPE ")) {
      helps.push_back(line);
    }
  }
  std::ranges::sort(helps);
  EXPECT_EQ(std::ranges::adjacent_find(helps), helps.end());
}

TEST(AllocationsJson, ListsAllocationsInAStableOrder) {
  const Allocation train{.pod = {"ml", "train-7"},
                         .pod_uid = "u",
                         .container = "main",
                         .shares = {{.device = "GPU-1", .units = 3}, {.device = "GPU-9", .whole = true}},
                         .ids = {{"aliyun.com/gpu-mem", {"1-0", "1-1", "1-2"}}}};
  const Allocation blocked{
      .pod = {"a", "b"}, .pod_uid = "v", .container = "c", .start_block = "no GPU was decided for it"};
  boost::json::array shares;
  for (const DeviceShare& share : train.shares) {
    shares.push_back(gpu_json(v100s(2), share));
  }
  const std::string listed = allocations_json(
      {{"node", "gpu-a"}, {"unit", "GiB"}},
      {{.key = "gpus",
        .allocations = {{.allocation = train, .shares = shares}, {.allocation = blocked, .shares = {}}}}});
  EXPECT_EQ(boost::json::parse(listed), boost::json::parse(R"({
    "node":"gpu-a","unit":"GiB","allocations":[
      {"namespace":"a","pod":"b","uid":"v","container":"c","gpus":[],"ids":{},"held":"no GPU was decided for it"},
      {"namespace":"ml","pod":"train-7","uid":"u","container":"main",
       "gpus":[{"uuid":"GPU-1","index":1,"mem":3},{"uuid":"GPU-9","whole":true}],
       "ids":{"aliyun.com/gpu-mem":["1-0","1-1","1-2"]}}]})"));
}

}  // namespace
}  // namespace tessera::agent
