#include "agent/devices/device_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "../../base/temporary_directory.h"
#include "agent/devices/plugin_server.h"
#include "agent/devices/rival_sockets.h"
#include "base/clock.h"
#include "base/fd.h"
#include "fake_kubelet.h"

namespace tessera::agent {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kPatience = 20s;

bool eventually(const std::function<bool()>& good) {
  const auto begun = std::chrono::steady_clock::now();
  while (!good() && std::chrono::steady_clock::now() - begun < kPatience) {
    std::this_thread::yield();
  }
  return good();
}

// Prefers the last IDs, waits as long as the test wants, returns an environment that names the IDs,
// and blocks containers on demand.
class Kind final : public KubeletAnswers {
 public:
  void prefer(Preference preference, std::function<void(std::vector<std::string>)> done) override {
    std::ranges::sort(preference.available, std::greater<>());
    preference.available.resize(std::min(preference.available.size(), preference.size));
    done(preference.available);
  }
  void allocate(std::vector<std::string> ids, std::function<void(Result<ContainerResponse>)> done) override {
    if (ids.front() == "bad") {
      done(fail(ErrorCode::kExhausted, "GPU 3 is full; ask for less"));
      return;
    }
    ContainerResponse grant;
    grant.env["DEVICES"] = ids.front();
    grant.mounts.push_back({.container_path = "/in", .host_path = "/out", .read_only = true});
    grant.nodes.push_back({.container_path = "/dev/a", .host_path = "/dev/b", .permissions = "rw"});
    grant.cdi_devices.emplace_back("tessera.io/gpu=a");
    // On another thread, like the agent.
    std::thread([grant, wait = slow, done = std::move(done)] {
      std::this_thread::sleep_for(wait);
      done(grant);
    }).detach();
    ++asked;
  }
  void pre_start(std::vector<std::string> ids, std::function<void(Status)> done) override {
    done(ids.front() == "wait" ? Status(fail(ErrorCode::kUnavailable, "MPS is starting; wait")) : Status());
  }

  std::chrono::milliseconds slow{0};
  std::atomic<int> asked = 0;
};

// Listens on a socket. Its file stays, like that of a process that was killed.
class Listener {
 public:
  explicit Listener(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << path;
    EXPECT_EQ(::listen(fd_.get(), 8), 0);
  }
  void wait_for_caller() const {
    pollfd caller{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&caller, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())), 1);
  }

 private:
  const Fd fd_;
};

class Plugin : public testing::Test {
 protected:
  Plugin() { std::filesystem::create_directories(directory); }

  [[nodiscard]] DevicePluginOptions options() const {
    return {.resource = resource,
            .directory = directory,
            .first_retry = 10ms,
            .last_retry = 50ms,
            .check_every = 100ms};
  }
  static std::vector<Device> two_devices() {
    return {{.id = "0-1", .healthy = true, .numa = {0}}, {.id = "0-2", .healthy = false}};
  }
  static bool has_two(const std::vector<Device>& devices) { return devices.size() == 2; }
  [[nodiscard]] std::size_t sockets() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      count += entry.path().filename().string().starts_with("tessera-") ? 1 : 0;
    }
    return count;
  }

  TemporaryDirectory root;
  std::string directory = root / "device-plugins";
  std::string resource = "aliyun.com/gpu-mem";
  Kind kind;
};

TEST_F(Plugin, RegistersAndSendsItsDevices) {
  FakeKubelet kubelet(directory);
  DevicePlugin plugin(options(), kind);
  ASSERT_TRUE(plugin.set_devices(two_devices()));
  EXPECT_EQ(kubelet.wait_for_devices(has_two), two_devices());
  EXPECT_THAT(kubelet.last_endpoint(), testing::StartsWith("tessera-gpu-mem-"));

  // A change reaches kubelet through the open stream.
  ASSERT_TRUE(plugin.set_devices({{.id = "0-1", .healthy = false}}));
  const auto changed = kubelet.wait_for_devices([](const auto& devices) { return devices.size() == 1; });
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_FALSE(changed[0].healthy);
  EXPECT_EQ(kubelet.wait_for_registrations(1), 1);
  // kubelet knows it a moment before the plugin does.
  EXPECT_TRUE(eventually([&] { return plugin.status().registrations == 1; }));
  EXPECT_TRUE(plugin.status().registered);
}

TEST_F(Plugin, WaitsForAKubeletThatStartsLater) {
  std::filesystem::remove_all(directory);
  DevicePlugin plugin(options(), kind);
  ASSERT_TRUE(plugin.set_devices(two_devices()));
  FakeKubelet kubelet(directory);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(kubelet.wait_for_devices(has_two), two_devices());
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kPatience);
}

TEST_F(Plugin, SaysWhyItIsNotRegistered) {
  const DevicePlugin plugin(options(), kind);
  EXPECT_TRUE(eventually([&] { return !plugin.status().problem.empty(); }));
  EXPECT_FALSE(plugin.status().registered);
  EXPECT_THAT(plugin.status().problem,
              HasSubstr("kubelet is not running: no socket " + directory + "/kubelet.sock"));
}

TEST_F(Plugin, RegistersAgainWhenKubeletRestarts) {
  DevicePlugin plugin(options(), kind);
  ASSERT_TRUE(plugin.set_devices(two_devices()));
  std::string first;
  {
    FakeKubelet kubelet(directory);
    ASSERT_EQ(kubelet.wait_for_devices(has_two), two_devices());
    first = kubelet.last_endpoint();
  }
  for (int restart = 0; restart < 3; ++restart) {
    FakeKubelet kubelet(directory);  // wipes the directory first
    ASSERT_EQ(kubelet.wait_for_devices(has_two), two_devices()) << restart;
    EXPECT_NE(kubelet.last_endpoint(), first) << "kubelet may refuse a name that was used before";
  }
  EXPECT_EQ(sockets(), 1U);
}

// Through the watch of the directory, not by polling: pods that a starting kubelet meets without
// the plugin fail for good, after less than a second.
TEST_F(Plugin, RegistersAtOnceWhenTheSocketOfKubeletAppears) {
  DevicePluginOptions lazy = options();
  lazy.check_every = 60s;
  DevicePlugin plugin(lazy, kind);
  ASSERT_TRUE(plugin.set_devices(two_devices()));
  for (int start = 0; start < 3; ++start) {
    FakeKubelet kubelet(directory);
    ASSERT_EQ(kubelet.wait_for_registrations(1), 1) << start << ": the next poll would be in a minute";
  }
}

TEST_F(Plugin, RetriesWhenKubeletSaysAlreadyConnected) {
  FakeKubelet kubelet(directory);
  kubelet.refuse(3, "device plugin already connected");
  DevicePlugin plugin(options(), kind);
  ASSERT_TRUE(plugin.set_devices(two_devices()));
  EXPECT_EQ(kubelet.wait_for_devices(has_two), two_devices());
}

// A socket that is bound but has no listener yet refuses connections; so does that of a kubelet
// that has just died.
TEST_F(Plugin, RetriesANewKubeletWithoutThePauseOfTheOldOne) {
  DevicePluginOptions patient = options();
  patient.first_retry = 10ms;
  patient.last_retry = patient.check_every = 60s;
  FakeKubelet old_one(directory);
  old_one.refuse(1'000'000, "not now");
  DevicePlugin plugin(patient, kind);
  ASSERT_TRUE(plugin.set_devices(two_devices()));
  ASSERT_TRUE(eventually([&] { return old_one.refused() >= 8; })) << "the next try would be seconds later";
  FakeKubelet new_one(directory);
  new_one.refuse(4, "not yet");
  EXPECT_EQ(new_one.wait_for_registrations(1), 1) << "would be 5, 10 or 20 s later";
  EXPECT_EQ(new_one.refused(), 4);
}

// Seen with a real kubelet: its start removes the socket during the registration, and then it dials
// for 10 s, in which every new pod fails for good.
TEST_F(Plugin, DoesNotWaitForAKubeletThatDialsARemovedSocket) {
  FakeKubelet kubelet(directory);
  kubelet.remove_socket_at_next_registration();
  DevicePlugin plugin(options(), kind);
  ASSERT_TRUE(plugin.set_devices(two_devices()));
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(kubelet.wait_for_devices(has_two), two_devices());
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 8s);
}

TEST_F(Plugin, RegistersAgainWhenKubeletDropsItsStream) {
  FakeKubelet kubelet(directory);
  const DevicePlugin plugin(options(), kind);
  ASSERT_TRUE(eventually([&] { return plugin.status().registered; })) << "kubelet watches";
  kubelet.drop();
  EXPECT_GE(kubelet.wait_for_registrations(2), 2);
}

TEST_F(Plugin, TwoInstancesCoexistDuringAnUpdate) {
  FakeKubelet kubelet(directory);
  auto old_one = std::make_unique<DevicePlugin>(options(), kind);
  ASSERT_EQ(kubelet.wait_for_registrations(1), 1);
  DevicePlugin new_one(options(), kind);
  ASSERT_TRUE(new_one.set_devices(two_devices()));
  ASSERT_EQ(kubelet.wait_for_registrations(2), 2);
  EXPECT_EQ(sockets(), 2U);
  ASSERT_TRUE(eventually([&] { return kubelet.watching() == 2; }));
  old_one.reset();
  EXPECT_GE(kubelet.wait_for_registrations(3), 3);
  EXPECT_EQ(sockets(), 1U);
  v1beta1::ContainerAllocateResponse answer;
  EXPECT_TRUE(kubelet.allocate({"0-1"}, answer).ok());
}

// An update that is rolled back: kubelet had only the new instance, and does not even end the
// stream of the old one.
TEST_F(Plugin, RegistersAgainWhenALaterInstanceEnds) {
  FakeKubelet kubelet(directory);
  const DevicePlugin old_one(options(), kind);
  ASSERT_TRUE(eventually([&] { return old_one.status().registered; }));
  {
    const DevicePlugin new_one(options(), kind);
    ASSERT_TRUE(eventually([&] { return new_one.status().registered && kubelet.watching() == 2; }));
  }
  EXPECT_TRUE(eventually([&] { return kubelet.served_by(resource).empty(); }));
  EXPECT_GE(kubelet.wait_for_registrations(3), 3);
  EXPECT_TRUE(eventually([&] { return !kubelet.served_by(resource).empty(); }));
  EXPECT_TRUE(std::filesystem::exists(directory + "/" + kubelet.served_by(resource)));
  EXPECT_EQ(sockets(), 1U);
}

// Another plugin registered the same resource later and is removed.
TEST_F(Plugin, RegistersAgainWhenALaterPluginOfAnotherOwnerEnds) {
  FakeKubelet kubelet(directory);
  const DevicePlugin plugin(options(), kind);
  ASSERT_TRUE(eventually([&] { return plugin.status().registered; }));
  const std::string socket = directory + "/aliyungpushare.sock";
  const Listener stranger(socket);
  const Listener other_instance(directory + "/" + new_socket_name(resource));
  other_instance.wait_for_caller();  // who looked there has seen both
  EXPECT_EQ(plugin.status().registrations, 1U);
  std::filesystem::remove(socket);
  EXPECT_TRUE(eventually([&] { return plugin.status().registrations == 2; }));
}

// The socket of a killed process still exists, without a listener.
TEST_F(Plugin, RegistersAgainWhenALaterInstanceIsKilled) {
  FakeKubelet kubelet(directory);
  const DevicePlugin plugin(options(), kind);
  ASSERT_TRUE(eventually([&] { return plugin.status().registered; }));
  const std::string left_behind = directory + "/" + new_socket_name(resource);
  {
    const Listener killed(left_behind);
    killed.wait_for_caller();
    EXPECT_EQ(plugin.status().registrations, 1U);
  }
  EXPECT_TRUE(eventually([&] { return plugin.status().registrations == 2; }));
  EXPECT_TRUE(std::filesystem::exists(left_behind));
}

TEST_F(Plugin, IgnoresSocketsOfOtherResourcesAndOldLeftovers) {
  RivalSockets rivals(directory, "aliyun.com/gpu");
  const auto since = Clock::real().now() - 1h;
  const std::string own = new_socket_name("aliyun.com/gpu");
  const std::string killed = new_socket_name("aliyun.com/gpu");
  const auto touch = [&](const std::string& name) { (void)Listener(directory + "/" + name); };
  const auto remove = [&](const std::string& name) { std::filesystem::remove(directory + "/" + name); };
  for (const std::string& name : {new_socket_name("aliyun.com/gpu-mem"), new_socket_name("nvidia.com/gpu"),
                                  std::string("kubelet.sock"), own}) {
    touch(name);
    EXPECT_EQ(rivals.look(own, since), RivalSockets::Gone::kNone) << name;
    remove(name);
    EXPECT_EQ(rivals.look(own, since), RivalSockets::Gone::kNone) << name;
  }
  // A socket from before the registration: its plugin cannot have registered since.
  touch("nvidia-gpu.sock");
  EXPECT_EQ(rivals.look(own, since), RivalSockets::Gone::kNone);
  remove("nvidia-gpu.sock");
  EXPECT_EQ(rivals.look(own, Clock::real().now()), RivalSockets::Gone::kNone);
  touch("nvidia-gpu.sock");
  EXPECT_EQ(rivals.look(own, since), RivalSockets::Gone::kNone);
  remove("nvidia-gpu.sock");
  EXPECT_EQ(rivals.look(own, since), RivalSockets::Gone::kOtherPlugin);
  // Only the socket is left of a process that was killed before.
  touch(killed);
  EXPECT_EQ(rivals.look(own, since), RivalSockets::Gone::kNone);
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(rivals.look(own, Clock::real().now()), RivalSockets::Gone::kNone);
    return Clock::real().now() - since > 1h + 1200ms;
  }));
  remove(killed);
  EXPECT_EQ(rivals.look(own, since), RivalSockets::Gone::kNone);
}

// The path of a socket has at most 107 bytes, the name of a resource up to 63 after its slash.
TEST_F(Plugin, HasASocketNameForTheLongestResourceName) {
  const std::string longest = "example.com/" + std::string(63, 'r');
  EXPECT_LE(("/var/lib/kubelet/device-plugins/" + new_socket_name(longest)).size(), 107U);
  EXPECT_NE(new_socket_name(longest), new_socket_name(longest)) << "each instance needs its own";
}

TEST_F(Plugin, LeavesNoSocketBehind) {
  FakeKubelet kubelet(directory);
  {
    const DevicePlugin plugin(options(), kind);
    ASSERT_EQ(kubelet.wait_for_registrations(1), 1);
    EXPECT_EQ(sockets(), 1U);
  }
  EXPECT_EQ(sockets(), 0U);
}

// kubelet fails a pod for good if its Allocate is cut off.
TEST_F(Plugin, AnswersOpenCallsBeforeItLeaves) {
  FakeKubelet kubelet(directory);
  auto plugin = std::make_unique<DevicePlugin>(options(), kind);
  ASSERT_EQ(kubelet.wait_for_registrations(1), 1);
  kind.slow = 150ms;
  v1beta1::ContainerAllocateResponse answer;
  auto status = std::async(std::launch::async, [&] { return kubelet.allocate({"0-7"}, answer); });
  while (kind.asked == 0) {
    std::this_thread::yield();
  }
  plugin.reset();
  const grpc::Status given = status.get();
  EXPECT_TRUE(given.ok()) << given.error_message();
  EXPECT_EQ(answer.envs().at("DEVICES"), "0-7");
}

TEST_F(Plugin, PassesKubeletsCallsOn) {
  FakeKubelet kubelet(directory);
  DevicePlugin plugin(options(), kind);
  ASSERT_EQ(kubelet.wait_for_registrations(1), 1);

  std::vector<std::string> preferred;
  EXPECT_TRUE(kubelet.prefer({"a", "c", "b"}, 2, preferred).ok());
  EXPECT_THAT(preferred, ElementsAre("c", "b"));

  v1beta1::ContainerAllocateResponse answer;
  ASSERT_TRUE(kubelet.allocate({"0-7"}, answer).ok());
  EXPECT_EQ(answer.envs().at("DEVICES"), "0-7");
  ASSERT_EQ(answer.mounts_size(), 1);
  EXPECT_TRUE(answer.mounts(0).read_only());
  ASSERT_EQ(answer.devices_size(), 1);
  EXPECT_EQ(answer.devices(0).permissions(), "rw");
  EXPECT_EQ(answer.cdi_devices(0).name(), "tessera.io/gpu=a");

  const grpc::Status refused = kubelet.allocate({"bad"}, answer);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.error_message(), "GPU 3 is full; ask for less");

  EXPECT_TRUE(kubelet.pre_start({"0-7"}).ok());
  EXPECT_EQ(kubelet.pre_start({"wait"}).error_message(), "MPS is starting; wait");
}

TEST_F(Plugin, RejectsAListThatIsTooLongForKubelet) {
  FakeKubelet kubelet(directory);
  DevicePlugin plugin(options(), kind);
  ASSERT_TRUE(plugin.set_devices(two_devices()));
  std::vector<Device> many;
  for (int i = 0; i < 250'000; ++i) {
    many.push_back({.id = "0-" + std::to_string(i)});
  }
  const Status status = plugin.set_devices(many);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kExhausted);
  EXPECT_THAT(status.error().text(), HasSubstr("larger unit"));
  EXPECT_EQ(kubelet.wait_for_devices(has_two), two_devices());

  // 8 GPUs of 192 GiB in units of 256 MiB fit easily.
  std::vector<Device> shares;
  for (int i = 0; i < 8 * 768; ++i) {
    shares.push_back({.id = "0-" + std::to_string(i), .healthy = true, .numa = {1}});
  }
  ASSERT_TRUE(plugin.set_devices(shares));
  EXPECT_EQ(kubelet.wait_for_devices([](const auto& list) { return list.size() == 6144; }), shares);
  EXPECT_LT(check_list_size(shares).value(), 200'000U);
}

// "Unhealthy" has two letters more than "Healthy".
TEST_F(Plugin, AListThatFittedWasTooLongWhenItsDevicesBecameUnhealthy) {
  DevicePlugin plugin(options(), kind);
  constexpr std::size_t kBytesOfOne = 23;  // on the wire, while it is healthy
  for (const std::size_t count :
       {PluginServer::kMaxListBytes / kBytesOfOne, PluginServer::kMaxListBytes / (kBytesOfOne + 2)}) {
    std::vector<Device> list;
    for (std::size_t i = 0; i < count; ++i) {
      list.push_back({.id = std::to_string(1'000'000'000 + i)});
    }
    const bool taken = plugin.set_devices(list).has_value();
    for (Device& device : list) {
      device.healthy = false;
    }
    EXPECT_EQ(plugin.set_devices(list).has_value(), taken) << count;
  }
  EXPECT_EQ(plugin.devices().size(), PluginServer::kMaxListBytes / (kBytesOfOne + 2));
}

}  // namespace
}  // namespace tessera::agent
