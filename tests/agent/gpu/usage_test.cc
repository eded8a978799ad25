#include "agent/gpu/usage.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "../../base/temporary_directory.h"
#include "agent/gpu/gpu_devices.h"
#include "agent/gpu/usage_watch.h"
#include "base/file.h"
#include "gpu_node.h"

namespace tessera::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kUid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
constexpr const char* kUidLow = "1b4e28ba_2fa1_11d2_883f_0016d3cca427";
const std::string kId(64, 'c');
constexpr std::uint64_t kGib = 1U << 30U;

TEST(ContainerOfCgroup, UnderstandsAllRuntimesAndDrivers) {
  const std::string slice = fmt::format("kubepods-burstable-pod{}.slice", kUidLow);
  const std::vector<std::string> texts{
      // version 2: containerd, Docker and CRI-O with systemd; cgroupfs; a pod with guaranteed
      // resources
      fmt::format("0::/kubepods.slice/kubepods-burstable.slice/{}/cri-containerd-{}.scope\n", slice, kId),
      fmt::format("0::/kubepods.slice/kubepods-burstable.slice/{}/docker-{}.scope\n", slice, kId),
      fmt::format("0::/kubepods.slice/kubepods-burstable.slice/{}/crio-{}.scope/container\n", slice, kId),
      fmt::format("0::/kubepods/besteffort/pod{}/{}\n", kUid, kId),
      fmt::format("0::/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{}.scope\n", kUidLow, kId),
      // version 1
      fmt::format("12:memory:/kubepods/burstable/pod{0}/{1}\n3:cpu,cpuacct:/kubepods/burstable/pod{0}/{1}\n"
                  "1:name=systemd:/kubepods/burstable/pod{0}/{1}\n0::/\n",
                  kUid, kId),
      fmt::format("11:devices:/kubepods.slice/kubepods-burstable.slice/{}/cri-containerd-{}.scope\n", slice,
                  kId),
      // first a controller that has a group only for the pod
      fmt::format("12:pids:/kubepods/burstable/pod{0}\n11:devices:/kubepods/burstable/pod{0}/{1}\n", kUid,
                  kId),
      // a cgroup namespace of our own; kind; containerd with systemd's names but without systemd
      fmt::format("0::/../../{}/cri-containerd-{}.scope\n", slice, kId),
      fmt::format("0::/system.slice/docker-{2}.scope/kubelet.slice/kubelet-kubepods.slice/"
                  "kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{0}.slice/"
                  "cri-containerd-{1}.scope\n",
                  kUidLow, kId, std::string(64, 'e')),
      fmt::format("0::/system.slice/containerd.service/{}:cri-containerd:{}\n", slice, kId),
      // systemd inside the container
      fmt::format("0::/kubepods/burstable/pod{}/{}/init.scope\n", kUid, kId)};
  for (const std::string& text : texts) {
    const auto found = container_of_cgroup(text);
    ASSERT_TRUE(found) << text;
    EXPECT_EQ(found->pod_uid, kUid) << text;
    EXPECT_EQ(found->container_id, kId) << text;
  }
}

TEST(ContainerOfCgroup, RecognizesProcessesOutsideOfPods) {
  for (const char* text : {"", "0::/\n", "0::/user.slice/user-0.slice/session-1.scope\n",
                           "0::/system.slice/sshd.service\n", "0::/machine.slice/podman-123.scope\n",
                           "12:memory:/podium/x\n", "nonsense", "::", "0::/kubepods.slice\n",
                           "0::/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
                           "0::/x-podzzzzzzzz-2fa1-11d2-883f-0016d3cca427.slice/y\n"}) {
    EXPECT_EQ(container_of_cgroup(text), std::nullopt) << text;
  }
}

TEST(ContainerOfCgroup, FindsThePodOfAProcessOutsideItsContainers) {
  const auto watcher = container_of_cgroup(
      fmt::format("0::/kubepods.slice/kubepods-pod{}.slice/crio-conmon-{}.scope\n", kUidLow, kId));
  EXPECT_EQ(watcher, (ContainerRef{.pod_uid = kUid, .container_id = ""}));
  // A static pod.
  const auto fixed = container_of_cgroup(fmt::format("0::/kubepods/pod{}/{}\n", std::string(32, 'a'), kId));
  EXPECT_EQ(fixed->pod_uid, std::string(32, 'a'));
}

TEST(ContainerOfProcess, ReadsTheGivenProcFileSystem) {
  const TemporaryDirectory proc;
  std::filesystem::create_directory(proc / "4711");
  ASSERT_TRUE(write_file(proc / "4711/cgroup", fmt::format("0::/kubepods/pod{}/{}\n", kUid, kId)));
  EXPECT_EQ(container_of_process(proc.path(), 4711)->container_id, kId);
  EXPECT_EQ(container_of_process(proc.path(), 4712), std::nullopt);
}

alloc::PodSpec pod_with(std::vector<std::pair<std::string, std::string>> containers) {
  alloc::PodSpec pod;
  pod.namespace_name = "ml";
  pod.name = "train-7";
  pod.uid = kUid;
  for (auto& [name, id] : containers) {
    pod.containers.emplace_back();
    pod.containers.back().name = name;
    pod.containers.back().id = id;
  }
  return pod;
}

TEST(NameOfContainer, IsFoundByIdOrAsTheOnlyContainer) {
  const alloc::PodSpec two = pod_with({{"main", "aa"}, {"side", kId}});
  EXPECT_EQ(name_of_container({&two}, {kUid, kId})->container, "side");
  EXPECT_EQ(name_of_container({&two}, {kUid, "not-reported-yet"})->container, "");
  const alloc::PodSpec one = pod_with({{"main", ""}});
  EXPECT_EQ(name_of_container({&one}, {kUid, kId})->container, "main");
  EXPECT_EQ(name_of_container({&one}, {"other", kId}), std::nullopt);
}

gpu::GpuSample sample_of(const std::string& uuid, std::vector<gpu::GpuProcess> processes) {
  gpu::GpuUsage usage{.memory = {.total = 32 * kGib, .reserved = 0, .used = 9 * kGib}, .busy_percent = 40};
  return {.uuid = uuid, .usage = usage, .processes = std::move(processes)};
}

TEST(Summarize, GroupsProcessesByContainerAndGpu) {
  const auto sample = summarize({sample_of("GPU-0", {{1, 2 * kGib, 30}, {2, 3 * kGib, 20}, {3, 1 * kGib}}),
                                 sample_of("GPU-1", {{1, 4 * kGib}, {4, std::nullopt}})},
                                [](std::uint32_t pid) -> std::optional<ContainerRef> {
                                  return pid == 3 ? std::nullopt : std::optional(ContainerRef{"pod", "c"});
                                });
  ASSERT_EQ(sample.containers.size(), 2U);
  EXPECT_EQ(sample.containers[0].gpu, "GPU-0");
  EXPECT_EQ(sample.containers[0].bytes, 5 * kGib);
  EXPECT_EQ(sample.containers[0].processes, 2U);
  EXPECT_EQ(sample.containers[0].busy_percent, 50U);
  EXPECT_EQ(sample.containers[1].busy_percent, std::nullopt);
  EXPECT_EQ(sample.containers[1].bytes, 4 * kGib);
  EXPECT_EQ(sample.containers[1].processes, 2U);
  EXPECT_EQ(sample.gpus[0].outside_bytes, kGib);
  EXPECT_EQ(sample.gpus[1].usage->busy_percent, 40U);
}

TEST(Summarize, ContinuesWhenOneGpuDoesNotAnswer) {
  gpu::GpuSample lost{.uuid = "GPU-0",
                      .usage = fail(ErrorCode::kUnavailable, "lost"),
                      .processes = fail(ErrorCode::kUnavailable, "lost")};
  const auto sample = summarize({lost, sample_of("GPU-1", {})}, [](std::uint32_t) { return std::nullopt; });
  EXPECT_FALSE(sample.gpus[0].usage);
  EXPECT_TRUE(sample.gpus[1].usage);
}

TEST(MemoryUses, CompareUseWithAllocations) {
  alloc::PodSpec pod = pod_with({{"main", "m"}, {"side", "s"}, {"old", "o"}, {"plain", "p"}});
  for (const std::size_t asking : {0U, 1U, 2U}) {
    pod.containers[asking].gpu_limits.emplace_back(alloc::GpuResource::kMemory, Quantity::units(1));
  }
  const std::vector<Allocation> given{
      {.pod = {"ml", "train-7"},
       .pod_uid = kUid,
       .container = "main",
       .shares = {{.device = "GPU-0", .units = 3}, {.device = "GPU-1", .whole = true}}},
      {.pod = {"ml", "train-7"},
       .pod_uid = kUid,
       .container = "side",
       .shares = {{.device = "GPU-0", .units = 1}}}};
  UsageSample sample;
  sample.containers = {{{kUid, "m"}, "GPU-0", 2 * kGib, 1}, {{kUid, "s"}, "GPU-1", kGib, 1},
                       {{kUid, "?"}, "GPU-0", kGib, 1},     {{kUid, "o"}, "GPU-0", kGib, 1},
                       {{kUid, "p"}, "GPU-0", kGib, 1},     {{"stranger", "x"}, "GPU-0", kGib, 1}};
  const auto uses = memory_uses(sample, given, {&pod}, alloc::Unit::gib());
  const auto find = [&](const std::string& container, const std::string& gpu, const std::string& uid = kUid) {
    for (const MemoryUse& use : uses) {
      if (use.who.container == container && use.gpu == gpu && use.who.pod_uid == uid) {
        return use;
      }
    }
    ADD_FAILURE() << container << " on " << gpu;
    return MemoryUse{};
  };
  EXPECT_EQ(uses.size(), 8U);
  EXPECT_EQ(find("main", "GPU-0").allowed_bytes, 3 * kGib);
  EXPECT_EQ(find("main", "GPU-0").used_bytes, 2 * kGib);
  EXPECT_EQ(find("main", "GPU-1").allowed_bytes, std::nullopt);
  EXPECT_EQ(find("side", "GPU-1").allowed_bytes, 0U);           // has no share of that GPU
  EXPECT_EQ(find("", "GPU-0").allowed_bytes, std::nullopt);     // kubelet has not reported its ID yet
  EXPECT_EQ(find("old", "GPU-0").allowed_bytes, std::nullopt);  // admitted by the plugin before us
  EXPECT_EQ(find("plain", "GPU-0").allowed_bytes, 0U);          // asks for nothing
  EXPECT_EQ(find("", "GPU-0", "stranger").allowed_bytes, 0U);   // asks for no GPU
  EXPECT_EQ(find("", "GPU-0", "stranger").who.pod.name, "");
}

// NVIDIA's plugin served nvidia.com/gpu before, with its own IDs: what its containers may use is
// not known.
TEST(MemoryUses, DidNotJudgeContainersThatAnotherPluginServedUnderOurName) {
  alloc::PodSpec pod = pod_with({{"theirs", "t"}, {"ours", "o"}});
  for (alloc::ContainerSpec& container : pod.containers) {
    container.gpu_limits.emplace_back(alloc::GpuResource::kWhole, Quantity::units(1));
  }
  const std::string uuid = "GPU-5d3c0000-1111-2222-3333-444455556666";
  GpuIds ids;
  const std::vector<Allocation> given{
      {.pod = {"ml", "train-7"}, .pod_uid = kUid, .container = "theirs", .ids = {{"nvidia.com/gpu", {uuid}}}},
      {.pod = {"ml", "train-7"},
       .pod_uid = kUid,
       .container = "ours",
       .ids = {{"nvidia.com/gpu", {ids.whole(uuid)}}}}};
  UsageSample sample;
  sample.containers = {{{kUid, "t"}, uuid, kGib, 1}, {{kUid, "o"}, uuid, kGib, 1}};
  const auto uses = memory_uses(sample, given, {&pod}, alloc::Unit::gib());
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(uses[0].who.container, "ours");
  EXPECT_EQ(uses[0].allowed_bytes, 0U) << "blocked: it got nothing";
  EXPECT_EQ(uses[1].allowed_bytes, std::nullopt);
}

// Kubernetes and the extender's ledger count the larger of the two.
TEST(AllocatedBytes, InitContainersWereAddedToTheContainersThatRunAfterThem) {
  alloc::PodSpec pod = pod_with({{"fetch", "f"}, {"proxy", "p"}, {"main", "m"}, {"side", "s"}});
  pod.containers[0].kind = alloc::ContainerKind::kInit;
  pod.containers[1].kind = alloc::ContainerKind::kSidecar;
  const auto given = [](const std::string& container, std::uint32_t units) {
    return Allocation{.pod = {"ml", "train-7"},
                      .pod_uid = kUid,
                      .container = container,
                      .shares = {{.device = "GPU-0", .units = units}}};
  };
  const auto allocated = [&](const std::vector<Allocation>& all) {
    return allocated_bytes(memory_uses({}, all, {&pod}, alloc::Unit::gib()), "GPU-0", 32 * kGib) / kGib;
  };
  EXPECT_EQ(allocated({given("fetch", 8), given("main", 3), given("side", 2)}), 8U);
  EXPECT_EQ(allocated({given("fetch", 4), given("main", 3), given("side", 2)}), 5U);
  EXPECT_EQ(allocated({given("fetch", 8), given("proxy", 1), given("main", 3)}), 8U) << "starts before it";
  Allocation other = given("main", 6);
  other.pod_uid = "other";
  EXPECT_EQ(allocated({given("fetch", 8), given("main", 3), other}), 14U) << "another pod adds to it";
  other.shares[0] = {.device = "GPU-0", .whole = true};
  EXPECT_EQ(allocated({given("fetch", 8), other}), 32U) << "at most the whole GPU";
  other.shares[0].device = "GPU-1";
  EXPECT_EQ(allocated({given("fetch", 8), other}), 8U);
}

TEST(MemoryUses, MarkInitContainersThatHaveEnded) {
  alloc::PodSpec pod = pod_with({{"fetch", "f"}, {"main", "m"}});
  pod.containers[0].kind = alloc::ContainerKind::kInit;
  const std::vector<Allocation> given{{.pod = {"ml", "train-7"},
                                       .pod_uid = kUid,
                                       .container = "fetch",
                                       .shares = {{.device = "GPU-0", .units = 3}}}};
  const auto is_current = [&](const UsageSample& sample) {
    return memory_uses(sample, given, {&pod}, alloc::Unit::gib()).at(0).is_current();
  };
  EXPECT_TRUE(is_current({})) << "it has not started";
  pod.containers[0].state = alloc::ContainerState::kTerminated;
  EXPECT_FALSE(is_current({}));
  UsageSample sample;
  sample.containers = {{{kUid, "f"}, "GPU-0", kGib, 1}};
  EXPECT_TRUE(is_current(sample)) << "it still has a process";
}

TEST(UsageSampler, AsksRepeatedlyButNeverTwiceAtOnce) {
  http::EventLoop loop;
  const TemporaryDirectory proc;
  std::vector<std::function<void(std::vector<gpu::GpuSample>)>> asked;
  int samples = 0;
  UsageSampler sampler(
      loop, {.every = 1ms, .proc_root = proc.path()}, [&](auto done) { asked.push_back(std::move(done)); },
      [&](const UsageSample&) { ++samples; });
  sampler.start();
  EXPECT_EQ(sampler.age(), std::nullopt);
  loop.run_until([] { return false; }, 20ms);
  ASSERT_EQ(asked.size(), 1U);  // the driver hangs: one question is enough
  asked[0]({sample_of("GPU-0", {})});
  ASSERT_TRUE(loop.run_until([&] { return asked.size() == 2; }, 10s));
  EXPECT_EQ(samples, 1);
  EXPECT_EQ(sampler.latest().gpus.size(), 1U);
  EXPECT_TRUE(sampler.age());
}

TEST(UsageSampler, CanBeDestroyedWhileTheDriverIsBusy) {
  http::EventLoop loop;
  std::function<void(std::vector<gpu::GpuSample>)> answer;
  {
    UsageSampler sampler(
        loop, {}, [&](auto done) { answer = std::move(done); }, [](const UsageSample&) { FAIL(); });
    sampler.start();
  }
  answer({});
  loop.run_until([] { return false; }, 5ms);
}

}  // namespace
}  // namespace tessera::agent
