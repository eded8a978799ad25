#include "gpu/driver.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "gpu/reopen_pace.h"
#include "sim_machine.h"

namespace tessera::gpu {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Driver, ReportsAMissingLibraryAndWhatToDo) {
  DriverOptions options;
  options.library = [] { return "/nowhere/libnvidia-ml.so.1"; };
  const Driver driver(std::move(options));
  const auto state = driver.wait_for(kPatience, [](const DriverState& now) { return now.version > 0; });
  EXPECT_FALSE(state->ready);
  EXPECT_THAT(state->problem, HasSubstr("/nowhere/libnvidia-ml.so.1"));
  EXPECT_THAT(state->problem, HasSubstr("--nvml-library"));
  EXPECT_EQ(driver.problem().error().code(), ErrorCode::kUnavailable);
}

TEST(Driver, RejectsALibraryThatIsNotNvml) {
  const auto library = NvmlLibrary::open(simulated_library("/none"));
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(library.error().text(), HasSubstr("lacks nvmlInit_v2"));
}

TEST(Driver, ReportsWhyInitFailsAndRecovers) {
  struct Case {
    const char* control;
    const char* expected;
  };
  for (const Case& c : {Case{"init: driver-not-loaded", "modprobe nvidia"},
                        Case{"init: version-mismatch", "another driver version than the kernel module"},
                        Case{"init: no-permission", "/dev/nvidiactl"}}) {
    SimMachine machine("l40s");
    machine.control(c.control);
    DriverOptions options = machine.options();
    options.known = machine.expected();
    const Driver driver(std::move(options));
    const auto state = driver.wait_for(kPatience, [](const DriverState& now) { return now.version > 0; });
    EXPECT_FALSE(state->ready);
    EXPECT_THAT(state->problem, HasSubstr(c.expected));
    // The known GPUs are still listed, all unhealthy.
    EXPECT_EQ(state->inventory.unhealthy_list(), "0,1,2,3");

    machine.control("");
    EXPECT_EQ(driver.wait_ready(kPatience)->inventory, machine.expected());
    EXPECT_TRUE(driver.problem());
  }
}

TEST(Driver, AcceptsTheKnownInventoryLate) {
  SimMachine machine("l40s");
  machine.control("init: driver-not-loaded");
  Driver driver(machine.options());
  driver.wait_for(kPatience, [](const DriverState& now) { return now.version > 0; });
  std::promise<std::size_t> sampled;
  driver.sample([&](const std::vector<GpuSample>& samples) { sampled.set_value(samples.size()); });
  driver.set_known(machine.expected());
  const auto state =
      driver.wait_for(kPatience, [](const DriverState& now) { return !now.inventory.gpus.empty(); });
  EXPECT_EQ(state->inventory.unhealthy_list(), "0,1,2,3");
  EXPECT_EQ(sampled.get_future().wait_for(kPatience), std::future_status::ready)
      << "an earlier request is still answered";
  machine.control("");
  EXPECT_EQ(driver.wait_ready(kPatience)->inventory, machine.expected());
  driver.set_known({});
  EXPECT_TRUE(driver.usage(machine.uuid(0)));  // runs after set_known()
  EXPECT_EQ(driver.state()->inventory, machine.expected()) << "the GPUs listed by the driver must stay";
}

TEST(Driver, KeepsAGpuUnhealthyAfterARestart) {
  SimMachine machine("l40s");
  DriverOptions options = machine.options();
  options.known = machine.expected();
  options.known.gpus[1].unhealthy = "XID 48 (double bit ECC error)";
  options.health.settle = std::chrono::hours(1);
  const Driver driver(std::move(options));
  EXPECT_THAT(reason(*driver.wait_ready(kPatience), machine.uuid(1)), HasSubstr("XID 48"));
}

TEST(Driver, FatalXidMakesAGpuUnhealthyUntilTheDriverRequestsNoRecovery) {
  SimMachine machine("dgx1v");
  std::atomic<int> changes = 0;
  DriverOptions options = machine.options();
  options.on_change = [&changes](const auto&) { ++changes; };
  const Driver driver(std::move(options));
  driver.wait_ready(kPatience);

  machine.control("gpus: {1: {recovery_action: reset}}\nevents: [{gpu: 1, xid: 79}]");
  auto state = driver.wait_for(kPatience, [&](const DriverState& now) {
    return reason(now, machine.uuid(1)).find("XID 79") != std::string::npos &&
           reason(now, machine.uuid(1)).find("a GPU reset") != std::string::npos;
  });
  EXPECT_THAT(reason(*state, machine.uuid(1)), HasSubstr("fallen off the bus"));
  EXPECT_EQ(state->inventory.unhealthy_list(), "1");
  ASSERT_EQ(state->xids.size(), 1U);
  EXPECT_EQ(state->xids[0].xid, 79U);
  EXPECT_EQ(state->xids[0].severity, XidClass::kFatal);
  EXPECT_GE(changes, 2);

  machine.control("events: [{gpu: 1, xid: 79}]");
  state = driver.wait_for(kPatience, is_healthy(machine.uuid(1)));
  EXPECT_EQ(state->inventory, machine.expected());
}

// Discovery runs every minute and after each NVLink error, and takes some time.
TEST(Driver, DoesNotMissAnXidDuringDiscovery) {
  SimMachine machine("l40s");
  DriverOptions options = machine.options();
  options.links_every = 1ms;  // run discovery all the time
  const Driver driver(std::move(options));
  driver.wait_ready(kPatience);
  machine.control("slow: {nvmlDeviceGetUUID: 25}");
  const auto calls = driver.calls().calls;
  while (driver.calls().calls < calls + 10) {
    std::this_thread::yield();
  }
  machine.control("slow: {nvmlDeviceGetUUID: 25}\nevents: [{gpu: 1, xid: 79}]");
  const auto state = driver.wait_for(kPatience / 4, [](const DriverState& now) { return !now.xids.empty(); });
  ASSERT_EQ(state->xids.size(), 1U);
  EXPECT_EQ(state->xids[0].uuid, machine.uuid(1));
}

TEST(Driver, IgnoresApplicationErrors) {
  SimMachine machine("l40s");
  const Driver driver(machine.options());
  driver.wait_ready(kPatience);
  machine.control("events: [{gpu: 0, xid: 13}, {gpu: 0, xid: 31}, {gpu: 0, xid: 31}, {gpu: 2, xid: 43}]");
  const auto state = driver.wait_for(kPatience, [](const DriverState& now) { return now.xids.size() == 3; });
  ASSERT_EQ(state->xids.size(), 3U);
  EXPECT_EQ(state->inventory.unhealthy_list(), "");
  std::uint64_t seen = 0;
  for (const XidCount& count : state->xids) {
    EXPECT_EQ(count.severity, XidClass::kIgnored);
    seen += count.count;
  }
  EXPECT_EQ(seen, 4U);
}

TEST(Driver, MemoryErrorsMakeAGpuUnhealthy) {
  SimMachine machine("dgxa100");
  const Driver driver(machine.options());
  driver.wait_ready(kPatience);

  machine.control("gpus: {4: {ecc: 1, recovery_action: reset}}\nevents: [{gpu: 4, ecc: double}]");
  driver.wait_for(kPatience, is_unhealthy(machine.uuid(4)));
  EXPECT_THAT(reason(*driver.state(), machine.uuid(4)), HasSubstr("memory error"));
  machine.control("gpus: {5: {remap_failed: true}}");  // GPU 4 was reset: its counter restarts
  driver.wait_for(kPatience, is_unhealthy(machine.uuid(5)));
  driver.wait_for(kPatience, is_healthy(machine.uuid(4)));
  EXPECT_EQ(driver.state()->inventory.unhealthy_list(), "5");
  EXPECT_THAT(reason(*driver.state(), machine.uuid(5)), HasSubstr("replace"));
}

TEST(Driver, DetectsThatAGpuIsLostAndComesBack) {
  SimMachine machine("dgx1v");
  const Driver driver(machine.options());
  driver.wait_ready(kPatience);
  machine.control("gpus: {6: {lost: true}}");
  auto state = driver.wait_for(kPatience, is_unhealthy(machine.uuid(6)));
  EXPECT_THAT(reason(*state, machine.uuid(6)), HasSubstr("GPU is lost"));
  EXPECT_EQ(state->inventory.unhealthy_list(), "6");
  EXPECT_TRUE(state->ready);
  EXPECT_TRUE(driver.problem());

  machine.control("");
  state = driver.wait_for(kPatience, is_healthy(machine.uuid(6)));
  EXPECT_EQ(state->inventory, machine.expected());
}

// A probe and a discovery notice a lost GPU with different calls of the driver. The agent wrote two
// Events about one lost GPU when the reason named the call.
TEST(Driver, GivesALostGpuOneReasonWhicheverCallFails) {
  SimMachine machine("l40s");
  DriverOptions options = machine.options();
  options.reopen_every = 50ms;
  std::atomic<bool> lost = false;
  std::atomic<int> sessions = 0;
  std::promise<void> reopened;
  options.library = [&, path = machine.library()] {
    if (lost && ++sessions == 2) {
      reopened.set_value();
    }
    return path;
  };
  std::mutex mutex;
  std::set<std::string> reasons;
  options.on_change = [&](const std::shared_ptr<const DriverState>& state) {
    const std::lock_guard lock(mutex);
    reasons.insert(reason(*state, machine.uuid(0)));
  };
  Driver driver(std::move(options));
  driver.wait_ready(kPatience);
  machine.control("gpus: {0: {lost: true}}");
  driver.wait_for(kPatience, is_unhealthy(machine.uuid(0)));
  lost = true;
  ASSERT_EQ(reopened.get_future().wait_for(kPatience), std::future_status::ready);
  const std::lock_guard lock(mutex);
  EXPECT_THAT(reasons, testing::ElementsAre("", "GPU is lost (NVML error 15)"));
}

TEST(Driver, RecoversALostGpuByReopeningTheSession) {
  SimMachine machine("l40s");
  DriverOptions options = machine.options();
  options.reopen_every = 50ms;
  const Driver driver(std::move(options));
  driver.wait_ready(kPatience);
  machine.control("gpus: {0: {lost: true}}");
  const auto calls = driver.calls().calls;
  driver.wait_for(kPatience, is_unhealthy(machine.uuid(0)));
  EXPECT_GT(driver.calls().calls, calls);
  EXPECT_GT(driver.calls().failures, 0U);
  machine.control("");
  EXPECT_EQ(driver.wait_for(kPatience, is_healthy(machine.uuid(0)))->inventory, machine.expected());
}

TEST(ReopenPace, ReopensLessAndLessOftenWhileAGpuStaysDead) {
  using namespace std::chrono_literals;
  ReopenPace pace(30s, 10min, 5s);
  EXPECT_FALSE(pace.due({}, false, 24h)) << "all GPUs answer";
  for (const auto wait : {30s, 60s, 120s, 240s, 480s, 600s, 600s}) {
    EXPECT_FALSE(pace.due({"GPU-1"}, false, wait - 1ms)) << wait.count();
    EXPECT_TRUE(pace.due({"GPU-1"}, false, wait)) << wait.count();
  }
  EXPECT_TRUE(pace.due({"GPU-1", "GPU-2"}, false, 30s)) << "another GPU stopped answering";
  EXPECT_TRUE(pace.due({"GPU-1", "GPU-2"}, true, 5s)) << "no GPU is left to disturb";
}

TEST(Driver, NamesAHungCallAndDoesNotBlockOtherCallers) {
  SimMachine machine("l40s");
  DriverOptions options = machine.options();
  options.hung_after = 50ms;
  Driver driver(std::move(options));
  driver.wait_ready(kPatience);

  machine.control("hang: [nvmlDeviceGetMemoryInfo_v2]");
  const auto begun = std::chrono::steady_clock::now();
  Status problem;
  while (problem && std::chrono::steady_clock::now() - begun < kPatience) {
    problem = driver.problem();
  }
  ASSERT_FALSE(problem);
  EXPECT_EQ(problem.error().code(), ErrorCode::kTimeout);
  EXPECT_THAT(problem.error().text(),
              HasSubstr("driver call nvmlDeviceGetMemoryInfo_v2 has not answered for"));

  // A call returns at its deadline, and state() still answers from memory.
  const auto asked = std::chrono::steady_clock::now();
  const auto processes = driver.processes(machine.uuid(0), 100ms);
  EXPECT_LT(std::chrono::steady_clock::now() - asked, kPatience / 2);
  ASSERT_FALSE(processes);
  EXPECT_EQ(processes.error().code(), ErrorCode::kTimeout);
  EXPECT_THAT(processes.error().text(), HasSubstr("nvmlDeviceGetMemoryInfo_v2"));
  EXPECT_EQ(driver.state()->inventory, machine.expected());

  // It recovers when the call returns.
  machine.control("");
  EXPECT_TRUE(driver.processes(machine.uuid(0), kPatience));
  EXPECT_TRUE(driver.problem());
}

TEST(Driver, WaitsForASlowDriver) {
  SimMachine machine("l40s");
  machine.control("slow: {nvmlDeviceGetComputeRunningProcesses_v3: 60}");
  Driver driver(machine.options());
  driver.wait_ready(kPatience);
  EXPECT_TRUE(driver.processes(machine.uuid(1), kPatience));
}

std::ptrdiff_t threads_of_this_process() {
  namespace fs = std::filesystem;
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

TEST(Driver, CanBeDestroyedWhileInitHangs) {
  SimMachine machine("l40s");
  machine.control("hang: [nvmlInit_v2]");
  std::thread([] {}).join();  // a sanitizer adds its own thread to the first one
  const auto before = threads_of_this_process();
  {
    DriverOptions options = machine.options();
    options.hung_after = 1ms;
    const Driver driver(std::move(options));
    EXPECT_FALSE(driver.wait_ready(50ms)->ready);
  }
  // The detached thread ends when the call returns. Meanwhile, a second driver works.
  machine.control("");
  {
    const Driver driver(machine.options());
    EXPECT_TRUE(driver.wait_ready(kPatience)->ready);
  }
  const auto begun = std::chrono::steady_clock::now();
  while (threads_of_this_process() > before && std::chrono::steady_clock::now() - begun < kPatience) {
    std::this_thread::yield();
  }
  EXPECT_LE(threads_of_this_process(), before);
}

TEST(Driver, ReportsProcessesAndUsageOfAGpu) {
  SimMachine machine("l40s");
  machine.control(R"(
gpus:
  0:
    busy_percent: 73
    processes:
      - {pid: 4711, memory_mib: 1500, busy_percent: 60}
      - {pid: 4712, memory_mib: 2500, mps: true}
)");
  Driver driver(machine.options());
  driver.wait_ready(kPatience);
  const auto processes = driver.processes(machine.uuid(0), kPatience);
  ASSERT_TRUE(processes) << processes.error().text();
  ASSERT_EQ(processes->size(), 2U);
  EXPECT_EQ((*processes)[0].pid, 4711U);
  EXPECT_EQ((*processes)[0].used_bytes, std::uint64_t{1500} << 20U);
  EXPECT_EQ((*processes)[0].busy_percent, 60U);
  EXPECT_EQ((*processes)[1].pid, 4712U);
  EXPECT_EQ((*processes)[1].busy_percent, 0U);
  const auto usage = driver.usage(machine.uuid(0), kPatience);
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->memory.used, std::uint64_t{4000} << 20U);
  EXPECT_EQ(usage->memory.reserved, std::uint64_t{609} << 20U);
  EXPECT_EQ(usage->busy_percent, 73U);
  EXPECT_THAT(driver.processes(machine.uuid(1), kPatience).value(), IsEmpty());
  EXPECT_EQ(driver.processes("GPU-none", kPatience).error().code(), ErrorCode::kNotFound);
}

TEST(Driver, ReportsUsageOfAllGpusWithoutBlocking) {
  SimMachine machine("l40s");
  Driver driver(machine.options());
  driver.wait_ready(kPatience);
  machine.control("gpus: {1: {processes: [{pid: 4711, memory_mib: 1500}]}, 2: {lost: true}}");
  driver.wait_for(kPatience, is_unhealthy(machine.uuid(2)));
  std::promise<std::vector<GpuSample>> promise;
  auto answer = promise.get_future();
  driver.sample([&](std::vector<GpuSample> samples) { promise.set_value(std::move(samples)); });
  ASSERT_EQ(answer.wait_for(kPatience), std::future_status::ready);
  const std::vector<GpuSample> samples = answer.get();
  ASSERT_EQ(samples.size(), machine.described().gpus.size());
  EXPECT_EQ(samples[1].uuid, machine.uuid(1));
  EXPECT_EQ(samples[1].processes.value().at(0).pid, 4711U);
  EXPECT_EQ(samples[1].usage->memory.used, std::uint64_t{1500} << 20U);
  EXPECT_FALSE(samples[2].usage);
  EXPECT_TRUE(samples[3].usage);
}

TEST(Driver, ListsManyProcesses) {
  SimMachine machine("l40s", "/old");
  std::string control = "gpus: {3: {processes: [";
  for (int pid = 1; pid <= 300; ++pid) {
    control += "{pid: " + std::to_string(pid) + ", memory_mib: 1}, ";
  }
  machine.control(control + "]}}");
  Driver driver(machine.options());
  driver.wait_ready(kPatience);
  EXPECT_EQ(driver.processes(machine.uuid(3), kPatience).value().size(), 300U);
}

}  // namespace
}  // namespace tessera::gpu
