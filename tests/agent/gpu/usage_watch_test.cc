#include "agent/gpu/usage_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "../../base/temporary_directory.h"
#include "../devices/fake_cluster.h"
#include "agent/devices/metrics.h"
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

constexpr std::uint64_t kWatchedGib = 1U << 30U;
const std::string kWatchedUid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
const std::string kWatchedId(64, 'c');

// One pod with 3 GiB of GPU 0, whose process 4711 uses 4.
class UsageWatchTest : public ::testing::Test {
 protected:
  UsageWatchTest() {
    std::filesystem::create_directory(proc_ / "4711");
    EXPECT_TRUE(
        write_file(proc_ / "4711/cgroup", "0::/kubepods/pod" + kWatchedUid + "/" + kWatchedId + "\n"));
    auto state = std::make_shared<gpu::DriverState>();
    state->ready = true;
    state->inventory = v100s(1);
    state_ = state;
    pod_.namespace_name = "ml";
    pod_.name = "train-7";
    pod_.uid = kWatchedUid;
    pod_.containers.resize(2);
    pod_.containers[0].name = "main";
    pod_.containers[0].id = kWatchedId;
    pod_.containers[1].name = "side";
    given_ = {{.pod = {"ml", "train-7"},
               .pod_uid = kWatchedUid,
               .container = "main",
               .shares = {{.device = "GPU-0", .units = 3}},
               .ids = {{"aliyun.com/gpu-mem", {"0-0", "0-1", "0-2"}}}}};
  }

  std::string metrics() {
    Readings readings;
    watch_.add_readings(readings);
    return Metrics().text(readings.take());
  }
  void sample() {
    watch_.start([](auto done) {
      gpu::GpuUsage usage{.memory = {.total = 32 * kWatchedGib, .reserved = 0, .used = 4 * kWatchedGib},
                          .busy_percent = 40};
      done({{.uuid = "GPU-0",
             .usage = usage,
             .processes = std::vector<gpu::GpuProcess>{{4711, 4 * kWatchedGib, 40}}}});
    });
    cluster_.run_until([&] { return watch_.sample_age().has_value(); });
  }
  FakeCluster cluster_;
  kube::Client client_ = cluster_.client();
  TemporaryDirectory proc_;
  std::shared_ptr<const gpu::DriverState> state_;
  alloc::PodSpec pod_;
  std::vector<Allocation> given_;
  Checkpoint checkpoint_;
  bool asks_ = true;  // for a GPU of ours
  bool pods_known_ = true;
  std::vector<std::string> events_;
  UsageWatch watch_{
      cluster_.loop(),
      client_,
      {.node = "gpu-a",
       .sampler = {.every = 10s, .proc_root = proc_.path()},
       .pods_known = [this] { return pods_known_; },
       .name_of_pod = [](const std::string&) { return std::string("ml/legacy"); },
       .checkpoint = [this]() -> Result<Checkpoint> { return checkpoint_; }},
      [this](const kube::EventNote& note) { events_.push_back(note.reason + " " + note.message); },
      {.state = [this] { return state_; },
       .allocations = [this] { return given_; },
       .pods =
           [this] {
             return asks_ ? std::vector<const alloc::PodSpec*>{&pod_} : std::vector<const alloc::PodSpec*>{};
           }}};
};

TEST_F(UsageWatchTest, SeesThroughProcessAndCgroupWhichContainerTakesMoreThanItsShare) {
  sample();
  EXPECT_THAT(events_, ElementsAre(AllOf(StartsWith("GpuMemoryExceeded container main uses 4.0GiB of GPU 0"),
                                         HasSubstr("asked for 3.0GiB"))));
  const std::string labels = R"({namespace="ml",pod="train-7",container="main",gpu="0",uuid="GPU-0"} )";
  const std::string text = metrics();
  EXPECT_THAT(text, HasSubstr("tessera_container_gpu_memory_used_bytes" + labels + "4294967296\n"));
  EXPECT_THAT(text, HasSubstr("tessera_container_gpu_memory_exceeded" + labels + "1\n"));
  EXPECT_THAT(text, HasSubstr("tessera_container_gpu_utilization_ratio" + labels + "0.4\n"));
  EXPECT_TRUE(watch_.sample_age());
}

TEST_F(UsageWatchTest, NamesThePodThatUsesAGpuUnasked) {
  asks_ = false;
  given_.clear();
  sample();
  EXPECT_THAT(events_,
              ElementsAre(StartsWith("UnrequestedGpuUse pod ml/legacy, which asks for no GPU, uses 4.0")));
}

TEST_F(UsageWatchTest, APodThatHadItsGpuThroughAnotherPluginWasToldAsUsingItUnasked) {
  asks_ = false;
  given_.clear();
  checkpoint_.given = {
      {.pod_uid = kWatchedUid, .container = "cuda", .resource = "nvidia.com/gpu", .ids = {"GPU-0"}}};
  sample();
  EXPECT_THAT(events_, IsEmpty());
  EXPECT_THAT(metrics(), HasSubstr("tessera_agent_memory_exceeded_total 0\n"));
}

// One container has a share from us, the other a GPU from NVIDIA's plugin.
TEST_F(UsageWatchTest, AContainerWithAGpuOfAnotherPluginWasJudgedBesideOneOfOurs) {
  given_[0].container = "side";
  checkpoint_.given = {
      {.pod_uid = kWatchedUid, .container = "main", .resource = "nvidia.com/gpu", .ids = {"GPU-0"}}};
  sample();
  EXPECT_THAT(events_, IsEmpty());
}

TEST_F(UsageWatchTest, APodWithAnotherGpuFromAnotherPluginUsesThisOneUnasked) {
  asks_ = false;
  given_.clear();
  checkpoint_.given = {
      {.pod_uid = kWatchedUid, .container = "cuda", .resource = "nvidia.com/gpu", .ids = {"GPU-7"}}};
  sample();
  EXPECT_THAT(events_, ElementsAre(StartsWith("UnrequestedGpuUse")));
}

// The API server is away when the agent starts.
TEST_F(UsageWatchTest, TookEveryPodForOneThatAsksForNoGpuBeforeThePodsWereListed) {
  asks_ = false;
  pods_known_ = false;
  sample();
  EXPECT_THAT(events_, IsEmpty());
}

TEST_F(UsageWatchTest, AnswersBeforeTheDriverHasSaidAnything) {
  state_ = nullptr;
  EXPECT_THAT(metrics(), testing::Not(HasSubstr("tessera_gpu")));
  EXPECT_FALSE(watch_.sample_age());
}

}  // namespace
}  // namespace tessera::agent
