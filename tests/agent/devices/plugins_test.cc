// Tests device lists that are too long for kubelet, and the metrics of its calls.
#include "agent/devices/plugins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "agent/devices/delivery_strategy.h"
#include "files_kind.h"
#include "kind_node.h"

namespace tessera::agent {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::size_t kTooMany = 250'000;

// The devices of FilesKind and any number of further things.
class CrowdKind final : public FilesKind {
 public:
  using FilesKind::FilesKind;

  [[nodiscard]] std::vector<ResourceList> lists() override {
    std::vector<ResourceList> all = FilesKind::lists();
    for (std::size_t i = 0; i < others; ++i) {
      all[0].devices.push_back({.id = "thing-" + std::to_string(i)});
    }
    return all;
  }

  void before_start(const NodePod& /*pod*/, const std::string& /*container*/, Done<Status> done) override {
    if (delays_start) {
      starting = std::move(done);
    } else {
      done({});
    }
  }

  std::size_t others = 0;
  bool delays_start = false;
  Done<Status> starting;  // called by the test
};

class PluginsTest : public testing::Test {
 protected:
  PluginsTest() {
    for (const char* name : {"thing0", "thing1"}) {
      make(name);
    }
    kind_.look();
  }
  ~PluginsTest() override {
    plugins_->leave();
    node_.run([this] { plugins_.reset(); });
  }
  void make(const std::string& name) { EXPECT_TRUE(write_file(node_.root / "dev/" + name, "")); }

  void publish(std::size_t others) {
    node_.run([&] {
      kind_.look();
      kind_.others = others;
      plugins_->publish();
    });
  }
  bool becomes_ready() {
    return node_.becomes_true([&] { return plugins_->not_ready().empty(); });
  }
  std::string not_ready() {
    std::string missing;
    node_.run([&] { missing = plugins_->not_ready(); });
    return missing;
  }
  std::vector<std::string> events() {
    std::vector<std::string> all;
    node_.run([&] { all = node_.recorded; });
    return all;
  }
  static bool has_two(const std::vector<Device>& list) { return list.size() == 2; }

  KindNode node_{{FilesKind::kResource}};
  DeviceStrategy strategy_{"things"};
  CrowdKind kind_{node_.root / "dev"};
  AllocationStore store_{node_.context, {}, ""};
  Metrics metrics_;
  std::optional<Plugins> plugins_{
      std::in_place,
      KindContext{.node = node_.context, .kind = kind_, .strategy = strategy_, .store = store_},
      PluginsOptions{.plugin = {.directory = node_.root / "device-plugins"}, .metrics = &metrics_}};
};

// With an empty list, kubelet would treat the devices of running pods as removed.
TEST_F(PluginsTest, DoesNotRegisterAnEmptyListIfTheFirstListIsTooLong) {
  publish(kTooMany);
  EXPECT_THAT(
      events(),
      ElementsAre(AllOf(
          StartsWith("DeviceListTooLong Node/gpu-a: example.com/thing is not offered: the list of 250002"),
          HasSubstr("--unit 256MiB"))));
  EXPECT_THAT(not_ready(), HasSubstr("kubelet accepts"));
  // A plugin that starts later registers, and this one still does not.
  class Silent final : public KubeletAnswers {
    void prefer(Preference, Done<std::vector<std::string>>) override {}
    void allocate(std::vector<std::string>, Done<Result<ContainerResponse>>) override {}
    void pre_start(std::vector<std::string>, Done<Status>) override {}
  } silent;
  {
    const DevicePlugin other({.resource = "example.com/other", .directory = node_.root / "device-plugins"},
                             silent);
    ASSERT_TRUE(node_.becomes_true([&] { return other.status().registered; }));
    EXPECT_EQ(node_.kubelet.served_by(FilesKind::kResource), "");
  }
  publish(0);
  EXPECT_TRUE(becomes_ready());
  EXPECT_EQ(node_.kubelet.wait_for_devices(has_two).size(), 2U);
  EXPECT_EQ(events().size(), 1U);
}

TEST_F(PluginsTest, ReportsAnUnhealthyDeviceToKubeletWhileTheListIsTooLong) {
  publish(0);
  ASSERT_TRUE(becomes_ready());
  std::filesystem::remove(node_.root / "dev/thing1");
  publish(kTooMany);
  const auto list =
      node_.kubelet.wait_for_devices([](const auto& all) { return has_two(all) && !all[1].healthy; });
  EXPECT_THAT(list, ElementsAre(Device{.id = "thing0", .numa = {0}},
                                Device{.id = "thing1", .healthy = false, .numa = {1}}));
  EXPECT_THAT(events(), ElementsAre(StartsWith("DeviceListTooLong Node/gpu-a: only the 2 devices of "
                                               "example.com/thing that kubelet already knew")));
  EXPECT_THAT(not_ready(), HasSubstr("kubelet accepts"));
  make("thing1");
  publish(kTooMany);
  EXPECT_EQ(
      node_.kubelet.wait_for_devices([](const auto& all) { return has_two(all) && all[1].healthy; }).size(),
      2U);
  EXPECT_EQ(events().size(), 1U) << "the same problem is not reported twice";
  publish(1);
  EXPECT_EQ(node_.kubelet.wait_for_devices([](const auto& all) { return all.size() == 3; }).size(), 3U);
  EXPECT_TRUE(becomes_ready());
}

TEST_F(PluginsTest, CountsACallOfKubeletWhenItIsAnswered) {
  publish(0);
  ASSERT_TRUE(becomes_ready());
  const auto calls = [](const std::string& call, const std::string& result) {
    return "tessera_agent_kubelet_calls_total{call=\"" + call +
           "\",resource=\"example.com/thing\",result=\"" + result + "\"} 1\n";
  };
  node_.admit(pod_with("a", FilesKind::kResource, 1));
  node_.kubelet.use(FilesKind::kResource);
  std::vector<std::string> preferred;
  ASSERT_TRUE(node_.kubelet.prefer({"thing0", "thing1"}, 1, preferred).ok());
  node_.allocate(FilesKind::kResource, {"thing1"});
  EXPECT_THAT(metrics_.text({}), AllOf(HasSubstr(calls("prefer", "ok")), HasSubstr(calls("allocate", "ok"))));
  std::filesystem::remove(node_.root / "dev/thing1");
  node_.run([&] { kind_.look(); });
  EXPECT_NE(node_.pre_start(FilesKind::kResource, {"thing1"}), "");
  EXPECT_THAT(metrics_.text({}), HasSubstr(calls("pre_start", "error")));
  make("thing1");
  node_.run([&] {
    kind_.look();
    kind_.delays_start = true;
  });
  std::thread kubelet([&] { EXPECT_EQ(node_.pre_start(FilesKind::kResource, {"thing1"}), ""); });
  ASSERT_TRUE(node_.becomes_true([&] { return kind_.starting != nullptr; }));
  EXPECT_THAT(metrics_.text({}), Not(HasSubstr(calls("pre_start", "ok"))));
  node_.run([&] { kind_.starting({}); });
  kubelet.join();
  EXPECT_THAT(metrics_.text({}), HasSubstr(calls("pre_start", "ok")));
}

}  // namespace
}  // namespace tessera::agent
