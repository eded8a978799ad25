// Tests that GPUs and another kind of device in one pod do not affect each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../devices/files_kind.h"
#include "../devices/kind_node.h"
#include "agent/devices/cdi_strategy.h"
#include "agent/gpu/gpu_devices.h"
#include "agent/gpu/gpu_kind.h"
#include "alloc/record.h"
#include "driver_host.h"
#include "gpu_node.h"

namespace tessera::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr const char* kMemory = "aliyun.com/gpu-mem";
constexpr const char* kThingResource = FilesKind::kResource;

class NoWrites final : public RecordWriter {
  void write(const NodePod& /*pod*/, const RecordRepair& /*repair*/, Done<Status> done) override { done({}); }
};

class TwoKinds : public testing::Test {
 protected:
  TwoKinds() {
    EXPECT_TRUE(write_file(node.root / "dev/thing0", ""));
    EXPECT_TRUE(write_file(node.root / "dev/thing1", ""));
    things.look();
    gpus.set_inventory(v100s(2));
    node.serve(*served_gpus);
    node.serve(*served_things);
  }
  ~TwoKinds() override {
    node.leave(*served_gpus);
    node.leave(*served_things);
    node.run([this] {
      served_gpus.reset();
      served_things.reset();
    });
  }

  static alloc::PodSpec pod_with_both(const std::string& name) {
    alloc::PodSpec pod = pod_with(name, kThingResource, 1);
    pod.containers[0].gpu_limits = {{alloc::GpuResource::kMemory, Quantity::units(2)}};
    alloc::Record record;
    record.containers = {{.container = "main", .shares = {{.gpu = "GPU-1", .units = 2}}}};
    pod.annotations[std::string(alloc::key::kAllocation)] = record.json();
    return pod;
  }
  std::vector<std::string> preferred(const std::string& resource, std::size_t count) {
    std::vector<std::string> available;
    node.run([&] {
      for (const auto& lists : {gpus.lists(), things.lists()}) {
        for (const ResourceList& list : lists) {
          for (const Device& device : list.resource == resource ? list.devices : std::vector<Device>{}) {
            available.push_back(device.id);
          }
        }
      }
    });
    node.kubelet.use(resource);
    std::vector<std::string> ids;
    EXPECT_TRUE(node.kubelet.prefer(available, static_cast<int>(count), ids).ok());
    return ids;
  }
  std::vector<std::string> cdi_files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(node.root / "cdi")) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  DriverHost host;
  KindNode node{{kThingResource}};
  CdiStrategy gpu_cdi{node.root / "cdi", gpu_cdi_kind()};
  CdiStrategy thing_cdi{node.root / "cdi", CdiKind::of("thing")};
  AllocationStore gpu_store{node.context, GpuKind::keys(), node.root / "allocations.json"};
  AllocationStore thing_store{node.context, {}, node.root / "things.json"};
  NoWrites writer;
  GpuKind gpus{node.context, gpu_store.allocations(), writer, {.files = host.options(), .can_update = true}};
  FilesKind things{node.root / "dev"};
  const PluginsOptions options{.plugin = {.directory = node.root / "device-plugins"}};
  std::optional<Plugins> served_gpus{
      std::in_place, KindContext{.node = node.context, .kind = gpus, .strategy = gpu_cdi, .store = gpu_store},
      options};
  std::optional<Plugins> served_things{
      std::in_place,
      KindContext{.node = node.context, .kind = things, .strategy = thing_cdi, .store = thing_store},
      options};
};

TEST_F(TwoKinds, AreServedToOneContainerEachInItsOwnWay) {
  node.admit(pod_with_both("a"));
  const std::vector<std::string> shares = preferred(kMemory, 2);
  const auto of_gpus = node.allocate(kMemory, shares);
  const auto of_things = node.allocate(kThingResource, preferred(kThingResource, 1));
  EXPECT_EQ(of_gpus.envs().at("NVIDIA_VISIBLE_DEVICES"), "GPU-1");
  EXPECT_EQ(of_gpus.cdi_devices(0).name(), "tessera.io/gpu=uid-a_main");
  EXPECT_EQ(of_things.cdi_devices(0).name(), "tessera.io/thing=uid-a_main");
  EXPECT_TRUE(of_things.envs().empty());
  EXPECT_THAT(cdi_files(), UnorderedElementsAre("tessera-uid-a_main.json", "tessera.thing.uid-a_main.json"));
  EXPECT_EQ(node.pre_start(kMemory, shares), "");
  EXPECT_EQ(node.pre_start(kThingResource, {"thing0"}), "");
  node.run([&] {
    EXPECT_THAT(gpu_store.allocations().find("uid-a", "main")->shares,
                ElementsAre(DeviceShare{.device = "GPU-1", .units = 2}));
    EXPECT_THAT(thing_store.allocations().find("uid-a", "main")->shares,
                ElementsAre(DeviceShare{.device = "thing0", .whole = true}));
  });
  node.end("uid-a");
  EXPECT_TRUE(cdi_files().empty());
}

TEST_F(TwoKinds, OneIsBlockedWhileTheOtherIsHealthy) {
  node.admit(pod_with_both("a"));
  const std::vector<std::string> shares = preferred(kMemory, 2);
  node.allocate(kMemory, shares);
  node.allocate(kThingResource, {"thing1"});
  alloc::Inventory unhealthy = v100s(2);
  unhealthy.gpus[1].unhealthy = "XID 79";
  node.run([&] { gpus.set_inventory(unhealthy); });
  EXPECT_THAT(node.pre_start(kMemory, shares), HasSubstr("XID 79"));
  EXPECT_EQ(node.pre_start(kThingResource, {"thing1"}), "");
}

// The pod requests only the other kind.
TEST_F(TwoKinds, DoNotSeePodsThatRequestOnlyTheOther) {
  node.admit(pod_with("b", kThingResource, 1));
  node.allocate(kThingResource, {"thing1"});
  node.run([&] {
    EXPECT_TRUE(gpu_pods(node.pods).empty());
    EXPECT_EQ(gpu_store.allocations().size(), 0U);
    EXPECT_EQ(gpus.decision_of(*node.pods.find(std::string("uid-b"))).verdict, Verdict::kUndecided);
  });
}

// kubelet has no Get. An allocation of either kind shows which pod it admits.
TEST_F(TwoKinds, ShareWhichPodKubeletHasBegunToAdmit) {
  alloc::PodSpec first = pod_with_both("first");
  first.containers[0].other_limits.clear();
  node.admit(first);
  node.admit(pod_with_both("second"));
  node.run([&] { node.has_get = false; });
  node.allocate(kThingResource, {"thing1"});
  node.allocate(kMemory, preferred(kMemory, 2));
  node.run([&] {
    EXPECT_NE(gpu_store.allocations().find("uid-second", "main"), nullptr);
    EXPECT_EQ(gpu_store.allocations().find("uid-first", "main"), nullptr);
  });
}

TEST_F(TwoKinds, AreCountedTogetherAndListedSeparately) {
  node.admit(pod_with_both("a"));
  node.allocate(kMemory, preferred(kMemory, 2));
  node.allocate(kThingResource, {"thing1"});
  Readings readings;
  node.run([&] {
    served_gpus->add_readings(readings);
    served_things->add_readings(readings);
  });
  const std::string text = Metrics().text(readings.take());
  EXPECT_THAT(text, HasSubstr("tessera_agent_containers_total{result=\"allocated\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("tessera_agent_devices{resource=\"aliyun.com/gpu\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("tessera_agent_devices{resource=\"example.com/thing\"} 2\n"));
}

}  // namespace
}  // namespace tessera::agent
