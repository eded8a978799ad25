// Tests the classes of src/agent/devices with a kind of device that the rest of the agent does not
// know.
#include "files_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>

#include "agent/devices/cdi_strategy.h"
#include "agent/devices/delivery_strategy.h"
#include "agent/devices/health_reporter.h"
#include "kind_node.h"

namespace tessera::agent {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kThingResource = FilesKind::kResource;
constexpr const char* kGadgetResource = FilesKind::kGadget;

// Runs the agent's classes for this kind, from construction to destruction.
class Things {
 public:
  Things(KindNode& node, DeliveryStrategy& strategy) : node_(node), kind(node.root / "dev") {
    node_.run([&] {
      store.emplace(node.context, Allocations::Keys{}, node.root / "things.json");
      plugins.emplace(KindContext{.node = node.context, .kind = kind, .strategy = strategy, .store = *store},
                      PluginsOptions{.plugin = {.directory = node.root / "device-plugins"}});
      health.emplace(node.context, store->allocations(), HealthReporterOptions{.info = kind.info()});
    });
    node_.serve(*plugins);
    look();
  }
  ~Things() {
    node_.leave(*plugins);
    node_.run([this] {
      health.reset();
      plugins.reset();
      store.reset();
    });
  }
  Things(const Things&) = delete;
  Things& operator=(const Things&) = delete;

  // Searches for devices and reports changes, like the agent.
  void look() {
    node_.run([this] {
      kind.look();
      plugins->publish();
      health->report(kind.devices());
    });
  }
  // Returns the names of the pods that have a device.
  std::vector<std::string> holders_of(const std::string& device) const {
    std::vector<std::string> names;
    node_.run([&] {
      for (const kube::ObjectReference& pod : store->allocations().holders_of(device)) {
        names.push_back(pod.name);
      }
    });
    return names;
  }

 private:
  KindNode& node_;

 public:
  FilesKind kind;
  std::optional<AllocationStore> store;
  std::optional<Plugins> plugins;
  std::optional<HealthReporter> health;
};

class FilesKindTest : public testing::Test {
 protected:
  FilesKindTest() {
    for (const char* name : {"thing0", "thing1", "thing2", "other"}) {
      make(name);
    }
  }
  void make(const std::string& name) const { EXPECT_TRUE(write_file(node.root / "dev/" + name, "")); }
  void remove(const std::string& name) const { std::filesystem::remove(node.root / "dev/" + name); }

  std::string metrics(const Things& things) {
    Readings readings;
    node.run([&] { things.plugins->add_readings(readings); });
    return Metrics().text(readings.take());
  }
  std::vector<std::string> events() {
    std::vector<std::string> all;
    node.run([&] { all = node.recorded; });
    return all;
  }
  std::string condition() {
    std::string text;
    node.run([&] {
      const boost::json::value found = node.cluster.get("/api/v1/nodes/gpu-a");
      const boost::json::value* status = found.as_object().if_contains("status");
      text = status == nullptr ? "" : boost::json::serialize(*status);
    });
    return text;
  }

  KindNode node{{kThingResource}};
  DeviceStrategy devices{"things"};
  CdiStrategy cdi{node.root / "cdi", CdiKind::of("thing")};
};

TEST_F(FilesKindTest, IsRegisteredAndListedWithItsNumaNodes) {
  const Things things(node, devices);
  EXPECT_FALSE(node.kubelet.served_by(kThingResource).empty());
  const auto list = node.kubelet.wait_for_devices([](const auto& all) { return all.size() == 3; });
  EXPECT_THAT(list, ElementsAre(Device{.id = "thing0", .numa = {0}}, Device{.id = "thing1", .numa = {1}},
                                Device{.id = "thing2", .numa = {2}}));
}

TEST_F(FilesKindTest, IsAllocatedAsDeviceNodesToThePodThatRequestsIt) {
  const Things things(node, devices);
  node.run([&] { node.pods.put(pod_with("queued", kThingResource, 2), 50, true); });
  node.admit(pod_with("a", kThingResource, 2));  // kubelet has not begun to admit the queued pod
  node.kubelet.use(kThingResource);
  std::vector<std::string> preferred;
  ASSERT_TRUE(node.kubelet.prefer({"thing0", "thing1", "thing2"}, 2, preferred).ok());
  EXPECT_EQ(preferred.size(), 2U);
  const auto answer = node.allocate(kThingResource, {"thing2", "thing0"});  // kubelet sends IDs in any order
  ASSERT_EQ(answer.devices_size(), 2);
  EXPECT_EQ(answer.devices(1).container_path(), "/dev/thing2");
  EXPECT_EQ(answer.devices(1).host_path(), "/dev/thing2");
  EXPECT_THAT(things.holders_of("thing2"), ElementsAre("a"));
  EXPECT_EQ(node.pre_start(kThingResource, {"thing0", "thing2"}), "");
  EXPECT_THAT(metrics(things),
              AllOf(HasSubstr("tessera_agent_container_lookups_total{result=\"confirmed\"} 1\n"),
                    HasSubstr("tessera_agent_containers_total{result=\"allocated\"} 1\n"),
                    HasSubstr("tessera_agent_starts_total{result=\"started\"} 1\n")));
}

TEST_F(FilesKindTest, IsDeliveredByCdiWithItsOwnNameAndFile) {
  const Things things(node, cdi);
  node.admit(pod_with("a", kThingResource, 1));
  const auto answer = node.allocate(kThingResource, {"thing1"});
  ASSERT_EQ(answer.cdi_devices_size(), 1);
  EXPECT_EQ(answer.cdi_devices(0).name(), "tessera.io/thing=uid-a_main");
  const std::string file = node.root / "cdi/tessera.thing.uid-a_main.json";
  EXPECT_THAT(read_file(file).value_or(""),
              AllOf(HasSubstr(R"("kind":"tessera.io/thing")"), HasSubstr(R"("path":"/dev/thing1")")));
  node.end("uid-a");
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(FilesKindTest, BlocksAContainerUntilItsDeviceIsHealthyAgain) {
  Things things(node, devices);
  node.admit(pod_with("a", kThingResource, 1));
  node.allocate(kThingResource, {"thing1"});
  remove("thing1");
  things.look();
  const auto list = node.kubelet.wait_for_devices([](const auto& all) { return !all[1].healthy; });
  EXPECT_FALSE(list[1].healthy);
  EXPECT_THAT(events(),
              ElementsAre(StartsWith("ThingUnhealthy Node/gpu-a: thing1 is not offered to new pods"),
                          StartsWith("ThingUnhealthy Pod/a: thing1 of node gpu-a")));
  EXPECT_TRUE(node.becomes_true([&] { return things.health->condition_state().settled; }));
  EXPECT_THAT(condition(), AllOf(HasSubstr("ThingsHealthy"), HasSubstr("1 of 3 things must not be used")));
  EXPECT_THAT(metrics(things),
              HasSubstr("tessera_agent_devices_healthy{resource=\"example.com/thing\"} 2\n"));
  EXPECT_THAT(node.pre_start(kThingResource, {"thing1"}),
              AllOf(HasSubstr("pod ml/a"), HasSubstr("plug it in again")));
  make("thing1");
  things.look();
  EXPECT_THAT(events(), Contains(StartsWith("ThingHealthy Node/gpu-a: thing1 is healthy and offered")));
  EXPECT_EQ(node.pre_start(kThingResource, {"thing1"}), "");
}

TEST_F(FilesKindTest, KnowsItsAllocationsAfterARestart) {
  node.admit(pod_with("a", kThingResource, 1));
  {
    const Things things(node, devices);
    node.allocate(kThingResource, {"thing1"});
  }
  remove("thing1");
  const Things things(node, devices);
  EXPECT_THAT(things.holders_of("thing1"), ElementsAre("a"));
  const auto list =
      node.kubelet.wait_for_devices([](const auto& all) { return all.size() == 3 && !all.back().healthy; });
  EXPECT_EQ(list.back(), (Device{.id = "thing1", .healthy = false}))
      << "a container holds it, so it stays listed";
  node.end("uid-a");
  EXPECT_THAT(things.holders_of("thing1"), IsEmpty());
}

TEST_F(FilesKindTest, AContainerAdmittedWithoutItsDeviceNodeNeedsANewPod) {
  Things things(node, devices);
  node.admit(pod_with("a", kThingResource, 1));
  remove("thing1");
  EXPECT_EQ(node.allocate(kThingResource, {"thing1"}).devices_size(), 0);
  make("thing1");
  EXPECT_THAT(node.pre_start(kThingResource, {"thing1"}),
              AllOf(HasSubstr("/dev/thing1 does not exist"), HasSubstr("delete the pod")));
}

// FPGA images, SR-IOV pools and a reloaded configuration change the resources of a kind.
TEST_F(FilesKindTest, RegistersAndUnregistersResourcesAtRunTime) {
  Things things(node, devices);
  EXPECT_EQ(node.kubelet.served_by(kGadgetResource), "");
  make("gadget0");
  things.look();
  EXPECT_TRUE(node.becomes_true([&] { return things.plugins->not_ready().empty(); }));
  EXPECT_FALSE(node.kubelet.served_by(kGadgetResource).empty());
  node.admit(pod_with("a", kGadgetResource, 1));
  const auto answer = node.allocate(kGadgetResource, {"gadget0"});
  ASSERT_EQ(answer.devices_size(), 1);
  EXPECT_EQ(answer.devices(0).host_path(), "/dev/gadget0");
  EXPECT_EQ(node.pre_start(kGadgetResource, {"gadget0"}), "");
  const std::string socket = node.root / "device-plugins/" + node.kubelet.served_by(kGadgetResource);
  ASSERT_TRUE(std::filesystem::exists(socket));

  remove("gadget0");
  things.look();
  EXPECT_TRUE(node.becomes_true([&] { return !std::filesystem::exists(socket); }))
      << "its plugin must be gone";
  node.run([&] {
    ASSERT_EQ(things.plugins->resources().size(), 1U);
    EXPECT_EQ(things.plugins->resources().front().name, kThingResource);
    EXPECT_EQ(things.plugins->not_ready(), "");
  });
  node.admit(pod_with("b", kThingResource, 1));
  EXPECT_EQ(node.allocate(kThingResource, {"thing0"}).devices_size(), 1)
      << "other resources must not be affected";

  make("gadget0");
  things.look();
  EXPECT_TRUE(node.becomes_true([&] { return things.plugins->not_ready().empty(); }));
  EXPECT_EQ(node.pre_start(kGadgetResource, {"gadget0"}), "") << "the pod keeps its device";
}

}  // namespace
}  // namespace tessera::agent
