// What kubelet and people are told where a list of devices is too long.
#include "agent/devices/plugins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "agent/devices/device_strategy.h"
#include "files_kind.h"
#include "kind_node.h"

namespace tessera::agent {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr std::size_t kTooMany = 250'000;

// Files, and any number of things beside them.
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

  std::size_t others = 0;
};

class LongListTest : public testing::Test {
 protected:
  LongListTest() {
    for (const char* name : {"thing0", "thing1"}) {
      make(name);
    }
    kind_.look();
  }
  ~LongListTest() override {
    served_->leave();
    node_.run([this] { served_.reset(); });
  }
  void make(const std::string& name) { EXPECT_TRUE(write_file(node_.root / "dev/" + name, "")); }

  void publish(std::size_t others) {
    node_.run([&] {
      kind_.look();
      kind_.others = others;
      served_->publish();
    });
  }
  bool becomes_ready() {
    return node_.comes_true([&] { return served_->plugins().not_ready().empty(); });
  }
  std::string not_ready() {
    std::string missing;
    node_.run([&] { missing = served_->plugins().not_ready(); });
    return missing;
  }
  std::vector<std::string> told() {
    std::vector<std::string> all;
    node_.run([&] { all = node_.told; });
    return all;
  }
  static bool has_two(const std::vector<Device>& list) { return list.size() == 2; }

  KindNode node_{{FilesKind::kResource}};
  DeviceStrategy strategy_{"things"};
  CrowdKind kind_{node_.root / "dev"};
  Allocations book_{{}};
  std::optional<ServedKind> served_{
      std::in_place,
      node_.cluster.loop(),
      node_.pods,
      book_,
      strategy_,
      kind_,
      node_.edges(),
      ServedKind::Options{
          .plugins = {.directory = node_.root / "device-plugins",
                      .on_too_long = [this](const std::string& what) { node_.told.push_back(what); }}}};
};

// An empty list says that the devices of running pods do not exist.
TEST_F(LongListTest, AFirstListThatWasTooLongWasRegisteredEmpty) {
  publish(kTooMany);
  EXPECT_THAT(told(), ElementsAre(AllOf(StartsWith("example.com/thing is not offered: the list of 250002"),
                                        HasSubstr("--unit 256MiB"))));
  EXPECT_THAT(not_ready(), HasSubstr("kubelet takes"));
  // Somebody who comes later is known to kubelet, and we are not.
  class Silent final : public KubeletAnswers {
    void prefer(Preference, std::function<void(std::vector<std::string>)>) override {}
    void allocate(std::vector<std::string>, std::function<void(Result<Grant>)>) override {}
    void pre_start(std::vector<std::string>, std::function<void(Status)>) override {}
  } silent;
  {
    const DevicePlugin other({.resource = "example.com/other", .directory = node_.root / "device-plugins"},
                             silent);
    ASSERT_TRUE(node_.comes_true([&] { return other.status().registered; }));
    EXPECT_EQ(node_.kubelet.served_by(FilesKind::kResource), "");
  }
  publish(0);
  EXPECT_TRUE(becomes_ready());
  EXPECT_EQ(node_.kubelet.wait_for_devices(has_two).size(), 2U);
  EXPECT_EQ(told().size(), 1U);
}

TEST_F(LongListTest, ADeviceThatFellIllWhileTheListWasTooLongStayedHealthyForKubelet) {
  publish(0);
  ASSERT_TRUE(becomes_ready());
  std::filesystem::remove(node_.root / "dev/thing1");
  publish(kTooMany);
  const auto list =
      node_.kubelet.wait_for_devices([](const auto& all) { return has_two(all) && !all[1].healthy; });
  EXPECT_THAT(list, ElementsAre(Device{.id = "thing0", .numa = {0}},
                                Device{.id = "thing1", .healthy = false, .numa = {1}}));
  EXPECT_THAT(told(), ElementsAre(StartsWith("of example.com/thing only the 2 devices that kubelet knew")));
  EXPECT_THAT(not_ready(), HasSubstr("kubelet takes"));
  make("thing1");
  publish(kTooMany);
  EXPECT_EQ(
      node_.kubelet.wait_for_devices([](const auto& all) { return has_two(all) && all[1].healthy; }).size(),
      2U);
  EXPECT_EQ(told().size(), 1U) << "no news";
  publish(1);
  EXPECT_EQ(node_.kubelet.wait_for_devices([](const auto& all) { return all.size() == 3; }).size(), 3U);
  EXPECT_TRUE(becomes_ready());
}

}  // namespace
}  // namespace tessera::agent
