#include "agent/gpu/usage_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "../../base/temporary_directory.h"
#include "../devices/fake_node.h"
#include "agent/devices/metrics.h"
#include "agent/gpu/gpu_kind.h"
#include "base/file.h"
#include "gpu_node.h"

namespace tessera::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr std::uint64_t kGib = 1U << 30U;
const std::string kPodUid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
const std::string kContainerId(64, 'c');

// Has one pod with 3 GiB of GPU 0. Its process 4711 uses 4 GiB.
class UsageWatchTest : public ::testing::Test {
 protected:
  UsageWatchTest() {
    std::filesystem::create_directory(proc_ / "4711");
    EXPECT_TRUE(write_file(proc_ / "4711/cgroup", "0::/kubepods/pod" + kPodUid + "/" + kContainerId + "\n"));
    auto state = std::make_shared<gpu::DriverState>();
    state->ready = true;
    state->inventory = v100s(1);
    watch_.set_state(state);
    pod_.namespace_name = "ml";
    pod_.name = "train-7";
    pod_.uid = kPodUid;
    pod_.containers.resize(2);
    pod_.containers[0].name = "main";
    pod_.containers[0].id = kContainerId;
    pod_.containers[1].name = "side";
    pod_.containers[1].gpu_limits = {{alloc::GpuResource::kMemory, Quantity::units(3)}};
  }

  // Makes the pod request GPU memory and allocates 3 units to this container.
  void allocate_to(const std::string& container) {
    node_.pods.put(pod_, 1, true);
    node_.pods.synced();
    allocations_.record({.pod = {"ml", "train-7"},
                         .pod_uid = kPodUid,
                         .container = container,
                         .shares = {{.device = "GPU-0", .units = 3}},
                         .ids = {{"aliyun.com/gpu-mem", {"0-0", "0-1", "0-2"}}}});
  }
  // Makes the pod request no GPU.
  void request_nothing() {
    pod_.name = "legacy";
    pod_.containers[1].gpu_limits.clear();
    node_.pods.put(pod_, 1, true);
    node_.pods.synced();
  }
  // Makes another plugin allocate a GPU to a container of the pod.
  void allocate_by_other_plugin(const std::string& container, const std::string& gpu) {
    node_.checkpoint.entries = {
        {.pod_uid = kPodUid, .container = container, .resource = "nvidia.com/gpu", .ids = {gpu}}};
  }

  std::string metrics() {
    Readings readings;
    watch_.add_readings(readings);
    return Metrics().text(readings.take());
  }
  void sample() {
    watch_.start([](auto done) {
      gpu::GpuUsage usage{.memory = {.total = 32 * kGib, .reserved = 0, .used = 4 * kGib},
                          .busy_percent = 40};
      done({{.uuid = "GPU-0",
             .usage = usage,
             .processes = std::vector<gpu::GpuProcess>{{4711, 4 * kGib, 40}}}});
    });
    node_.cluster.run_until([&] { return watch_.sample_age().has_value(); });
  }

  TemporaryDirectory proc_;
  alloc::PodSpec pod_;
  FakeNode node_;
  Allocations allocations_{GpuKind::keys()};
  UsageWatch watch_{node_.context, allocations_, {.sampler = {.every = 10s, .proc_root = proc_.path()}}};
};

TEST_F(UsageWatchTest, FindsThroughProcessAndCgroupTheContainerThatUsesMoreThanItsShare) {
  allocate_to("main");
  sample();
  EXPECT_THAT(
      node_.events(),
      ElementsAre(AllOf(StartsWith("! GpuMemoryExceeded Pod/train-7 container main uses 4.0GiB of GPU 0"),
                        HasSubstr("requested 3.0GiB"))));
  const std::string labels = R"({namespace="ml",pod="train-7",container="main",gpu="0",uuid="GPU-0"} )";
  const std::string text = metrics();
  EXPECT_THAT(text, HasSubstr("tessera_container_gpu_memory_used_bytes" + labels + "4294967296\n"));
  EXPECT_THAT(text, HasSubstr("tessera_container_gpu_memory_exceeded" + labels + "1\n"));
  EXPECT_THAT(text, HasSubstr("tessera_container_gpu_utilization_ratio" + labels + "0.4\n"));
  EXPECT_TRUE(watch_.sample_age());
}

TEST_F(UsageWatchTest, NamesThePodThatUsesAGpuItDidNotRequest) {
  request_nothing();
  sample();
  EXPECT_THAT(node_.events(),
              ElementsAre(StartsWith(
                  "! UnrequestedGpuUse Node/gpu-a pod ml/legacy, which requests no GPU, uses 4.0")));
}

TEST_F(UsageWatchTest, DoesNotReportAPodThatUsesAGpuOfAnotherPlugin) {
  request_nothing();
  allocate_by_other_plugin("cuda", "GPU-0");
  sample();
  EXPECT_THAT(node_.events(), IsEmpty());
  EXPECT_THAT(metrics(), HasSubstr("tessera_agent_memory_exceeded_total 0\n"));
}

// One container has a share from us, the other a GPU from NVIDIA's plugin.
TEST_F(UsageWatchTest, DoesNotReportAContainerWithAGpuOfAnotherPluginNextToOneOfOurs) {
  allocate_to("side");
  allocate_by_other_plugin("main", "GPU-0");
  sample();
  EXPECT_THAT(node_.events(), IsEmpty());
}

TEST_F(UsageWatchTest, ReportsAPodThatUsesAnotherGpuThanTheOtherPluginAllocated) {
  request_nothing();
  allocate_by_other_plugin("cuda", "GPU-7");
  sample();
  EXPECT_THAT(node_.events(), ElementsAre(StartsWith("! UnrequestedGpuUse")));
}

// The API server does not answer when the agent starts.
TEST_F(UsageWatchTest, ReportsNoUnrequestedUseBeforeThePodsAreListed) {
  sample();
  EXPECT_THAT(node_.events(), IsEmpty());
}

TEST_F(UsageWatchTest, AnswersBeforeTheDriverHasReportedAnything) {
  watch_.set_state(nullptr);
  EXPECT_THAT(metrics(), testing::Not(HasSubstr("tessera_gpu")));
  EXPECT_FALSE(watch_.sample_age());
}

}  // namespace
}  // namespace tessera::agent
