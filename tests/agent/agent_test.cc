// Tests the whole agent on a simulated machine with a fake kubelet. Most tests have no API server,
// as when a node starts.
#include "agent/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "../gpu/sim_machine.h"
#include "agent/devices/allocations.h"
#include "agent/gpu/gpu_devices.h"
#include "agent/gpu/gpu_kind.h"
#include "alloc/names.h"
#include "base/fd.h"
#include "base/file.h"
#include "devices/fake_kubelet.h"
#include "http/server.h"

namespace tessera::agent {
namespace {

using gpu::SimMachine;
using testing::HasSubstr;

// Number of shares of 8 GPUs with 32 GiB.
constexpr std::size_t kShares = 256;

class RunningAgent {
 public:
  // `node` is the Node object of the API server. If it is empty, there is no API server. The server
  // lists `pods` after `pods_after`, or never if that is 0.
  RunningAgent(const SimMachine& machine, const std::string& kubelet_dir, const std::string& state_dir,
               const std::string& node = "", std::chrono::milliseconds pods_after = {},
               const std::string& pods = "", const std::function<void(Config&)>& change = {}) {
    Config config;
    config.node_name = SimMachine::kNode;
    config.address = "127.0.0.1";
    config.port = 0;
    config.log.level = log::Level::kOff;
    config.paths.nvml_library = machine.library();
    config.paths.sysfs_root = machine.path("sys");
    config.paths.dev_root = machine.path("dev");
    config.paths.kubelet_dir = kubelet_dir;
    config.paths.state_dir = state_dir;
    if (change) {
      change(config);
    }
    kube::ClusterAccess access;
    access.cluster.server = "http://127.0.0.1:1";  // no server
    if (!node.empty()) {
      api_.emplace(http::Server::create(
                       loop_, {},
                       [this, node, pods, pods_after](http::Request& request, http::Reply reply) {
                         if (request.path() == "/api/v1/nodes/" + std::string(SimMachine::kNode)) {
                           if (request.method() == "PATCH") {
                             ++(pods_listed ? node_writes : node_writes_before_pods);
                             last_node_write_ = request.body().text();
                           }
                           reply.send({.body = node});
                         } else if (request.path() == "/api/v1/pods" &&
                                    pods_after > std::chrono::milliseconds(0) &&
                                    request.query().find("watch") == std::string_view::npos) {
                           auto waiting = std::make_shared<http::Reply>(std::move(reply));
                           listing_ = loop_.after(pods_after, [this, waiting, pods] {
                             pods_listed = true;
                             waiting->send({.body = R"({"kind":"PodList","apiVersion":"v1",)"
                                                    R"("metadata":{"resourceVersion":"7"},"items":[)" +
                                                    pods + "]}"});
                           });
                         } else if (request.method() == "POST" && request.path().ends_with("/events")) {
                           events_ += std::string(request.body().text()) + "\n";
                           reply.send({.status = 201, .body = "{}"});
                         } else {
                           reply.send_error(503, "not now");
                         }
                       })
                       .value());
      access.cluster.server = "http://127.0.0.1:" + std::to_string(api_->port());
    }
    agent_ = Agent::create(loop_, config, access).value();
    loop_.post([this] { agent_->start(); });
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~RunningAgent() {
    agent_->leave();
    loop_.stop();
    thread_.join();
  }

  std::string not_ready() {
    std::string missing;
    loop_.call([&] { missing = agent_->not_ready(); });
    return missing;
  }

  // Returns the response of /metrics.
  std::string metrics() {
    const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(agent_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      return "";
    }
    const std::string_view request = "GET /metrics HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n";
    (void)!::write(socket.get(), request.data(), request.size());
    std::string answer;
    std::array<char, 4096> part{};
    for (ssize_t bytes = 0; (bytes = ::read(socket.get(), part.data(), part.size())) > 0;) {
      answer.append(part.data(), static_cast<std::size_t>(bytes));
    }
    return answer;
  }
  bool metrics_contain(const std::string& line) {
    const auto begun = std::chrono::steady_clock::now();
    while (metrics().find(line) == std::string::npos) {
      if (std::chrono::steady_clock::now() - begun > gpu::kPatience) {
        return false;
      }
    }
    return true;
  }

  // Waits for an Event that contains `text`. Returns all Events.
  std::string events_with(const std::string& text) {
    const auto begun = std::chrono::steady_clock::now();
    std::string all;
    do {
      loop_.call([&] { all = events_; });
    } while (all.find(text) == std::string::npos &&
             std::chrono::steady_clock::now() - begun < gpu::kPatience);
    return all;
  }

  // Waits until the last write to the Node contains `text`, or does not. Returns false on a timeout.
  bool node_write_contains(const std::string& text, bool wanted = true) {
    const auto begun = std::chrono::steady_clock::now();
    std::string last;
    do {
      loop_.call([&] { last = last_node_write_; });
    } while ((last.empty() || (last.find(text) != std::string::npos) != wanted) &&
             std::chrono::steady_clock::now() - begun < gpu::kPatience);
    return !last.empty() && (last.find(text) != std::string::npos) == wanted;
  }

  std::atomic<bool> pods_listed = false;
  std::atomic<int> node_writes_before_pods = 0;
  std::atomic<int> node_writes = 0;

 private:
  http::EventLoop loop_;
  http::Timer listing_;
  std::string events_;
  std::string last_node_write_;
  std::optional<http::Server> api_;
  std::unique_ptr<Agent> agent_;
  std::thread thread_;
};

class AgentTest : public testing::Test {
 protected:
  static bool all_shares(const std::vector<Device>& list) { return list.size() == kShares; }
  static std::function<bool(const std::vector<Device>&)> unhealthy(std::ptrdiff_t wanted) {
    return [wanted](const std::vector<Device>& list) {
      return all_shares(list) &&
             std::ranges::count_if(list, [](const Device& one) { return !one.healthy; }) == wanted;
    };
  }
  static std::set<std::string> ids(const std::vector<Device>& list) {
    std::set<std::string> all;
    for (const Device& device : list) {
      all.insert(device.id);
    }
    return all;
  }
  [[nodiscard]] std::string plugin_dir() const { return root / "device-plugins"; }
  [[nodiscard]] std::string state_dir() const { return root / "state"; }
  // Writes a checkpoint in which container c of a pod holds these device IDs.
  void write_checkpoint(const std::string& resource, const std::vector<std::string>& device_ids,
                        const std::string& uid = "77aa") const {
    const boost::json::array list(device_ids.begin(), device_ids.end());
    const boost::json::object entry{{"PodUID", uid},
                                    {"ContainerName", "c"},
                                    {"ResourceName", resource},
                                    {"DeviceIDs", boost::json::object{{"-1", list}}}};
    const boost::json::object data{{"PodDeviceEntries", boost::json::array{entry}},
                                   {"RegisteredDevices", boost::json::object{}}};
    ASSERT_TRUE(write_file(plugin_dir() + "/kubelet_internal_checkpoint",
                           boost::json::serialize(boost::json::object{{"Data", data}})));
  }

  TemporaryDirectory root;
  SimMachine machine{"dgx1v"};
};

TEST_F(AgentTest, RegistersItsGpusWithoutAnApiServer) {
  FakeKubelet kubelet(plugin_dir());
  RunningAgent agent(machine, root.path(), state_dir());
  const auto list = kubelet.wait_for_devices(all_shares);
  ASSERT_EQ(list.size(), kShares);
  EXPECT_TRUE(
      std::ranges::all_of(list, [](const Device& one) { return one.healthy && one.numa.size() == 1; }));
  EXPECT_GE(kubelet.wait_for_registrations(3), 3) << "gpu-mem, gpu and gpu-count";
  // kubelet completes the registration a moment before the plugin does.
  const auto begun = std::chrono::steady_clock::now();
  std::string missing = agent.not_ready();
  while (missing.starts_with("aliyun.com") && std::chrono::steady_clock::now() - begun < gpu::kPatience) {
    missing = agent.not_ready();
  }
  EXPECT_THAT(missing, testing::HasSubstr("pods are still being listed"));
}

// kubelet may call right after the registration, and the agent must know the pods by then.
TEST_F(AgentTest, RegistersWhenItKnowsThePodsOfItsNode) {
  FakeKubelet kubelet(plugin_dir());
  const RunningAgent agent(machine, root.path(), state_dir(), "{}", std::chrono::milliseconds(150));
  ASSERT_GE(kubelet.wait_for_registrations(1), 1);
  EXPECT_TRUE(agent.pods_listed);
}

TEST_F(AgentTest, MarksAllSharesOfAnUnhealthyGpu) {
  FakeKubelet kubelet(plugin_dir());
  const RunningAgent agent(machine, root.path(), state_dir());
  ASSERT_EQ(kubelet.wait_for_devices(unhealthy(0)).size(), kShares);
  machine.control("gpus: {3: {lost: true}}");
  const auto list = kubelet.wait_for_devices(unhealthy(32));
  const std::string tag = machine.uuid(3).substr(4, 8);
  for (const Device& device : list) {
    EXPECT_EQ(device.healthy, !device.id.starts_with(tag)) << device.id;
  }
  machine.control("");
  EXPECT_EQ(kubelet.wait_for_devices(unhealthy(0)).size(), kShares);
}

TEST_F(AgentTest, KeepsItsIdsWhenTheDriverRenumbersAfterARestart) {
  FakeKubelet kubelet(plugin_dir());
  std::set<std::string> before;
  {
    const RunningAgent agent(machine, root.path(), state_dir());
    before = ids(kubelet.wait_for_devices(all_shares));
  }
  ASSERT_EQ(before.size(), kShares);
  machine.control("order: [7, 6, 5, 4, 3, 2, 1, 0]");
  const int registered = kubelet.wait_for_registrations(3);
  const RunningAgent agent(machine, root.path(), state_dir());
  kubelet.wait_for_registrations(registered + 3);
  EXPECT_EQ(ids(kubelet.wait_for_devices(all_shares)), before);
}

// If the driver fails after a reboot, the known GPUs stay listed as unhealthy.
TEST_F(AgentTest, ListsTheKnownGpusWhenTheDriverFails) {
  FakeKubelet kubelet(plugin_dir());
  {
    const RunningAgent agent(machine, root.path(), state_dir());
    ASSERT_EQ(kubelet.wait_for_devices(unhealthy(0)).size(), kShares);
  }
  machine.control("init: driver-not-loaded");
  const RunningAgent agent(machine, root.path(), state_dir());
  EXPECT_EQ(kubelet.wait_for_devices(unhealthy(kShares)).size(), kShares);
}

// The installer of a cloud provider or a driver container may start minutes after the agent. The
// library of another driver version has another file name.
TEST_F(AgentTest, FindsADriverThatIsInstalledWhileItRuns) {
  std::filesystem::rename(machine.path("usr"), machine.path("later"));
  FakeKubelet kubelet(plugin_dir());
  RunningAgent agent(machine, root.path(), state_dir(), "", {}, "", [&](Config& config) {
    config.paths.nvml_library.clear();
    config.paths.driver_root = machine.path("");
  });
  const auto begun = std::chrono::steady_clock::now();
  while (agent.not_ready().find("libnvidia-ml.so.1") == std::string::npos) {
    ASSERT_LT(std::chrono::steady_clock::now() - begun, gpu::kPatience) << agent.not_ready();
  }
  std::filesystem::rename(machine.path("later"), machine.path("usr"));
  EXPECT_EQ(kubelet.wait_for_devices(unhealthy(0)).size(), kShares);
}

// A driver that hangs from the start reports no GPUs. kubelet still gets the device list.
TEST_F(AgentTest, ListsTheKnownGpusWhenTheDriverHangs) {
  FakeKubelet kubelet(plugin_dir());
  {
    const RunningAgent agent(machine, root.path(), state_dir());
    ASSERT_EQ(kubelet.wait_for_devices(unhealthy(0)).size(), kShares);
  }
  machine.control("hang: [nvmlInit_v2]");
  {
    const RunningAgent agent(machine, root.path(), state_dir());
    EXPECT_EQ(kubelet.wait_for_devices(unhealthy(kShares)).size(), kShares);
    machine.control("");
    EXPECT_EQ(kubelet.wait_for_devices(unhealthy(0)).size(), kShares) << "after the driver has recovered";
  }
}

// The scheduler must not choose GPUs whose health is not known. kubelet would refuse pods that are
// already bound, so it keeps the devices.
TEST_F(AgentTest, PublishesGpusAsUnhealthyToTheSchedulerWhileTheDriverHangs) {
  FakeKubelet kubelet(plugin_dir());
  RunningAgent agent(machine, root.path(), state_dir(), R"({"metadata":{"name":"n","resourceVersion":"3"}})",
                     std::chrono::milliseconds(1));
  ASSERT_EQ(kubelet.wait_for_devices(unhealthy(0)).size(), kShares);
  ASSERT_TRUE(agent.node_write_contains("has not answered", false));
  machine.control("hang: [nvmlDeviceGetMemoryInfo_v2, nvmlDeviceGetMemoryInfo]");
  EXPECT_TRUE(agent.node_write_contains("has not answered"));
  EXPECT_EQ(kubelet.wait_for_devices(unhealthy(0)).size(), kShares);
  machine.control("");
  EXPECT_TRUE(agent.node_write_contains("has not answered", false)) << "after the call has returned";
  EXPECT_EQ(kubelet.wait_for_devices(unhealthy(0)).size(), kShares);
}

// kubelet gets the device list of a driver that does not answer, also if the state directory was
// lost.
TEST_F(AgentTest, ListsTheGpusOfTheNodeAnnotationWhenItsOwnFileIsGone) {
  FakeKubelet kubelet(plugin_dir());
  {
    const RunningAgent agent(machine, root.path(), state_dir());
    ASSERT_EQ(kubelet.wait_for_devices(unhealthy(0)).size(), kShares);
  }
  const std::string inventory = read_file(state_dir() + "/inventory.json").value();
  const std::string node = boost::json::serialize(boost::json::object{
      {"metadata",
       boost::json::object{{"name", SimMachine::kNode},
                           {"annotations", boost::json::object{{alloc::key::kInventory, inventory}}}}}});
  machine.control("init: driver-not-loaded");
  const RunningAgent agent(machine, root.path(), root / "other-state", node);
  EXPECT_EQ(kubelet.wait_for_devices(unhealthy(kShares)).size(), kShares);
}

TEST_F(AgentTest, MarksAGpuThatAnotherPluginAllocatedAsUnhealthy) {
  FakeKubelet kubelet(plugin_dir());
  write_checkpoint("nvidia.com/gpu", {machine.uuid(3)});
  RunningAgent agent(
      machine, root.path(), state_dir(), R"({"metadata":{"name":"n"}})", std::chrono::milliseconds(1),
      R"({"metadata":{"name":"x","namespace":"ml","uid":"77aa","resourceVersion":"5"},)"
      R"("spec":{"nodeName":"gpu-a","containers":[{"name":"c"}]},"status":{"phase":"Running"}})");
  EXPECT_EQ(kubelet.wait_for_devices(unhealthy(kShares / 8)).size(), kShares);
  EXPECT_TRUE(agent.metrics_contain("tessera_gpu_healthy{gpu=\"3\",")) << agent.metrics();
  EXPECT_THAT(agent.metrics(), testing::ContainsRegex("tessera_gpu_healthy.gpu=.3.[^\n]* 0\n"));
  EXPECT_THAT(agent.metrics(), testing::ContainsRegex("tessera_gpu_healthy.gpu=.2.[^\n]* 1\n"));
}

// The agent learns from the pod list which pod holds the GPU. Until then it must not change the
// inventory that the previous process wrote.
TEST_F(AgentTest, DoesNotPublishTheInventoryBeforeThePodsAreListed) {
  FakeKubelet kubelet(plugin_dir());
  write_checkpoint("nvidia.com/gpu", {machine.uuid(3)});
  RunningAgent agent(
      machine, root.path(), state_dir(), R"({"metadata":{"name":"n","resourceVersion":"3"}})",
      std::chrono::milliseconds(700),
      R"({"metadata":{"name":"x","namespace":"ml","uid":"77aa","resourceVersion":"5"},)"
      R"("spec":{"nodeName":"gpu-a","containers":[{"name":"c"}]},"status":{"phase":"Running"}})");
  EXPECT_EQ(kubelet.wait_for_devices(unhealthy(kShares / 8)).size(), kShares);
  const auto begun = std::chrono::steady_clock::now();
  while (agent.node_writes == 0 && std::chrono::steady_clock::now() - begun < gpu::kPatience) {
    std::this_thread::yield();
  }
  EXPECT_GT(agent.node_writes, 0);
  EXPECT_EQ(agent.node_writes_before_pods, 0);
}

// The agent must recover the allocation from kubelet's checkpoint and the record, although the pods
// are listed long before the driver answers.
TEST_F(AgentTest, RecoversTheAllocationOfARunningPodIfTheDriverAnswersLate) {
  machine.control("slow: {nvmlDeviceGetCount_v2: 600}");
  FakeKubelet kubelet(plugin_dir());
  GpuIds ids;
  const std::string uuid = machine.uuid(3);
  write_checkpoint("aliyun.com/gpu-mem", {ids.share(uuid, 0), ids.share(uuid, 1)});
  RunningAgent agent(
      machine, root.path(), state_dir(), R"({"metadata":{"name":"n"}})", std::chrono::milliseconds(1),
      R"({"metadata":{"name":"x","namespace":"ml","uid":"77aa","resourceVersion":"5",)"
      R"("annotations":{"tessera.io/allocation":"{\"v\":1,\"containers\":{\"c\":[{\"gpu\":\")" +
          uuid +
          R"(\",\"mem\":2}]}}"}},)"
          R"("spec":{"nodeName":"gpu-a","containers":[{"name":"c","resources":{"limits":)"
          R"({"aliyun.com/gpu-mem":"2"}}}]},"status":{"phase":"Running"}})");
  ASSERT_EQ(kubelet.wait_for_devices(unhealthy(0)).size(), kShares);
  const auto kept = [&] {
    Allocations saved(GpuKind::keys());
    const auto text = read_file(state_dir() + "/allocations.json");
    return text && saved.parse(*text) ? saved.all() : std::vector<Allocation>();
  };
  const auto begun = std::chrono::steady_clock::now();
  while (kept().empty() && std::chrono::steady_clock::now() - begun < gpu::kPatience) {
    std::this_thread::yield();
  }
  ASSERT_EQ(kept().size(), 1U);
  EXPECT_EQ(kept().front().start_block, "");
  EXPECT_THAT(kept().front().shares, testing::ElementsAre(DeviceShare{.device = uuid, .units = 2}));
}

TEST_F(AgentTest, HasNoSyncMetricForObjectsThatAreSwitchedOff) {
  RunningAgent agent(machine, root.path(), state_dir(), "", {}, "", [](Config& config) {
    config.node_condition = false;
    config.unhealthy_config_map = false;
  });
  ASSERT_TRUE(agent.metrics_contain("tessera_agent_object_synced{object=\"inventory\"}"));
  const std::string text = agent.metrics();
  EXPECT_THAT(text, testing::Not(HasSubstr("object=\"condition\"")));
  EXPECT_THAT(text, testing::Not(HasSubstr("object=\"config_map\"")));
}

// NVIDIA's plugin allocated GPU 3 to one pod. The other pod uses GPU 2 without an allocation.
TEST_F(AgentTest, DoesNotReportAPodThatUsesAGpuOfAnotherPlugin) {
  FakeKubelet kubelet(plugin_dir());
  const std::string theirs = "77aa77aa-0000-4000-8000-000000000000";
  const std::string thief = "77bb77bb-0000-4000-8000-000000000000";
  write_checkpoint("nvidia.com/gpu", {machine.uuid(3)}, theirs);
  for (const auto& [pid, uid] : {std::pair("41", theirs), std::pair("42", thief)}) {
    const std::string process = root / "proc/" + pid;
    std::filesystem::create_directories(process);
    ASSERT_TRUE(
        write_file(process + "/cgroup", "0::/kubepods/pod" + uid + "/" + std::string(64, 'c') + "\n"));
  }
  machine.control(
      "gpus: {2: {processes: [{pid: 42, memory_mib: 1024}]},"
      " 3: {processes: [{pid: 41, memory_mib: 1024}]}}");
  const auto pod = [](const std::string& name, const std::string& uid) {
    return R"({"metadata":{"name":")" + name + R"(","namespace":"ml","resourceVersion":"5","uid":")" + uid +
           R"("},"spec":{"nodeName":"gpu-a","containers":[{"name":"c"}]},"status":{"phase":"Running"}})";
  };
  RunningAgent agent(machine, root.path(), state_dir(), R"({"metadata":{"name":"n"}})",
                     std::chrono::milliseconds(1), pod("theirs", theirs) + "," + pod("thief", thief),
                     [&](Config& config) {
                       config.paths.proc_root = root / "proc";
                       config.sample_every = std::chrono::milliseconds(20);
                     });
  EXPECT_THAT(agent.events_with("UnrequestedGpuUse"),
              HasSubstr("pod ml/thief, which requests no GPU, uses 1.0GiB of GPU 2"));
  EXPECT_THAT(agent.metrics(), HasSubstr("\ntessera_agent_memory_exceeded_total 1\n"));
}

// 8 GPUs of 32 GiB in MiB are 262,144 devices.
TEST_F(AgentTest, ReportsAListThatIsTooLongForKubelet) {
  FakeKubelet kubelet(plugin_dir());
  RunningAgent agent(machine, root.path(), state_dir(), R"({"metadata":{"name":"n"}})",
                     std::chrono::milliseconds(1), "",
                     [](Config& config) { config.unit = alloc::Unit::mib(); });
  EXPECT_THAT(agent.events_with("DeviceListTooLong"),
              testing::AllOf(HasSubstr("aliyun.com/gpu-mem is not offered"), HasSubstr("--unit 256MiB")));
  EXPECT_GE(kubelet.wait_for_registrations(2), 2) << "whole GPUs are registered anyway";
  EXPECT_EQ(kubelet.served_by("aliyun.com/gpu-mem"), "");
}

TEST_F(AgentTest, UnregistersWhenItEnds) {
  FakeKubelet kubelet(plugin_dir());
  {
    const RunningAgent agent(machine, root.path(), state_dir());
    ASSERT_GE(kubelet.wait_for_registrations(3), 3);
  }
  for (const auto& entry : std::filesystem::directory_iterator(plugin_dir())) {
    EXPECT_EQ(entry.path().filename(), "kubelet.sock");
  }
}

}  // namespace
}  // namespace tessera::agent
