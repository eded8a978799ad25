#include <gmock/gmock.h>

#include "sim_machine.h"

namespace tessera::gpu {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class EveryMachine : public testing::TestWithParam<std::string> {};

TEST_P(EveryMachine, IsDiscoveredAsDescribed) {
  const SimMachine machine(GetParam());
  const Driver driver(machine.options());
  const auto state = driver.wait_ready(kPatience);
  ASSERT_TRUE(state->ready) << state->problem;
  EXPECT_EQ(state->inventory.json(), machine.expected().json());
  EXPECT_EQ(state->inventory, machine.expected());
  EXPECT_THAT(state->problems, IsEmpty());
  EXPECT_THAT(state->missing_functions, testing::Not(testing::Contains(HasSubstr("UUID"))));
  EXPECT_EQ(state->cuda, machine.described().cuda);
  ASSERT_EQ(state->compute.size(), machine.described().gpus.size());
  EXPECT_EQ(state->compute[0], machine.described().gpus[0].compute);
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, EveryMachine, testing::ValuesIn(sim::builtin_machines()),
                         [](const auto& machine) { return machine.param; });

// Eight GPUs with 36 links each, every GPU in its own PCI domain, as on GB300.
std::string many_links() {
  std::string yaml = R"(
v: 1
about: eight GPUs with 36 links
driver: "580.65.06"
cuda: "13.0"
cpus: 144
memory_gib: 960
gpus:
  - count: 8
    model: NVIDIA GB300
    memory_mib: 284208
    reserved_mib: 947
    compute: "10.3"
    minors: [3, 2, 1, 0, 7, 6, 5, 4]
    pci: [)";
  for (int i = 0; i < 8; ++i) {
    yaml += std::string(i == 0 ? "" : ", ") + "\"000" + std::to_string(1 + i) + ":01:00.0\"";
  }
  return yaml + R"(]
links:
  nvlink_generation: 5
  nvswitch: true
  rules:
    - {nvlink: 36}
    - {pcie: SYS}
  pcie_generation: 6
)";
}

TEST(Discovery, Reads36LinksAndPciDomains) {
  const SimMachine machine(many_links());
  const Driver driver(machine.options());
  const auto state = driver.wait_ready(kPatience);
  ASSERT_TRUE(state->ready) << state->problem;
  EXPECT_EQ(state->inventory, machine.expected());
  EXPECT_EQ(state->inventory.topology.link(0, 7).nvlinks, 36);
  EXPECT_EQ(state->inventory.gpus[4].pci_bus_id, "00000005:01:00.0");
  EXPECT_EQ(state->inventory.gpus[0].minor, 3);
}

TEST(Discovery, WorksWithADriverWithoutVersionedFunctions) {
  for (const char* name : {"dgx1v", "dgxa100", "pcie2s"}) {
    const SimMachine machine(name, "/old");
    const Driver driver(machine.options());
    const auto state = driver.wait_ready(kPatience);
    ASSERT_TRUE(state->ready) << state->problem;
    alloc::Inventory expected = machine.expected();
    for (alloc::Gpu& gpu : expected.gpus) {
      gpu.reserved_mib = 0;  // such a driver does not report it
    }
    EXPECT_EQ(state->inventory.json(), expected.json()) << name;
    EXPECT_THAT(state->missing_functions, testing::Contains("nvmlDeviceGetMemoryInfo_v2"));
  }
}

TEST(Discovery, TreatsFunctionNotFoundLikeAMissingSymbol) {
  SimMachine machine("dgx1v");
  machine.control(
      "missing: [nvmlDeviceGetMemoryInfo_v2, nvmlDeviceGetTopologyCommonAncestor, "
      "nvmlDeviceGetNvLinkRemoteDeviceType, nvmlDeviceGetMinorNumber]");
  const Driver driver(machine.options());
  const auto state = driver.wait_ready(kPatience);
  ASSERT_TRUE(state->ready) << state->problem;
  alloc::Inventory expected = machine.expected();
  for (alloc::Gpu& gpu : expected.gpus) {
    gpu.reserved_mib = 0;
    gpu.minor = -1;
  }
  // Then PCIe paths are from /sys, and the remote ends of links follow from their addresses.
  EXPECT_EQ(state->inventory.json(), expected.json());
}

TEST(Discovery, ListsAMigGpuAsUnhealthy) {
  SimMachine machine("dgxa100");
  machine.control("gpus: {2: {mig: true}}");
  const Driver driver(machine.options());
  const auto state = driver.wait_ready(kPatience);
  ASSERT_EQ(state->inventory.gpus.size(), 8U);
  EXPECT_THAT(reason(*state, machine.uuid(2)), HasSubstr("MIG is enabled"));
  EXPECT_EQ(state->inventory.unhealthy_list(), "2");

  machine.control("");
  driver.wait_for(kPatience, is_healthy(machine.uuid(2)));
  EXPECT_EQ(reason(*driver.state(), machine.uuid(2)), "");
}

TEST(Discovery, GpusAreUnhealthyUntilTheFabricIsReady) {
  SimMachine machine("hgxh100");
  machine.control("gpus: {0: {fabric: in-progress}, 1: {fabric: not-started}}");
  const Driver driver(machine.options());
  const auto state = driver.wait_ready(kPatience);
  EXPECT_THAT(reason(*state, machine.uuid(0)), HasSubstr("nvidia-fabricmanager"));
  EXPECT_EQ(state->inventory.unhealthy_list(), "0,1");
  machine.control("");
  EXPECT_EQ(driver.wait_for(kPatience, is_healthy(machine.uuid(0)))->ready, true);
}

TEST(Discovery, CountsOnlyLinksThatAreUp) {
  SimMachine machine("dgx1v");
  // Links 0 to 5 of GPU 0 go to GPUs 1, 2, 3, 3, 4, 4.
  machine.control("gpus: {0: {nvlinks_down: [2]}}");
  const Driver direct(machine.options());
  const auto state = direct.wait_ready(kPatience);
  EXPECT_EQ(state->inventory.topology.link(0, 3).nvlinks, 1);
  EXPECT_EQ(state->inventory.topology.link(0, 4).nvlinks, 2);

  SimMachine switched("hgxh100");
  switched.control("gpus: {5: {nvlinks_down: [0, 1]}}");
  const Driver driver(switched.options());
  const auto switched_state = driver.wait_ready(kPatience);
  EXPECT_EQ(switched_state->inventory.topology.link(5, 0).nvlinks, 16);
  EXPECT_EQ(switched_state->inventory.topology.link(4, 0).nvlinks, 18);
}

TEST(Discovery, OneLostGpuDoesNotHideTheOthers) {
  SimMachine machine("dgx1v");
  machine.control("gpus: {3: {lost: true}}");
  const Driver driver(machine.options());
  const auto state = driver.wait_ready(kPatience);
  ASSERT_TRUE(state->ready);
  // It is not listed, because its UUID is unknown.
  EXPECT_EQ(state->inventory.gpus.size(), 7U);
  EXPECT_FALSE(state->inventory.find_uuid(machine.uuid(3)));
  ASSERT_EQ(state->problems.size(), 1U);
  EXPECT_THAT(state->problems[0], HasSubstr("GPU 3 does not answer: GPU is lost"));
  EXPECT_EQ(state->inventory.unhealthy_list(), "");

  machine.control("");
  const auto later =
      driver.wait_for(kPatience, [](const DriverState& now) { return now.inventory.gpus.size() == 8; });
  EXPECT_EQ(later->inventory, machine.expected());
}

TEST(Discovery, ListsALostGpuThatIsInTheKnownInventory) {
  SimMachine machine("dgx1v");
  machine.control("gpus: {3: {lost: true}}");
  DriverOptions options = machine.options();
  options.known = machine.expected();
  const Driver driver(std::move(options));
  const auto state = driver.wait_ready(kPatience);
  EXPECT_EQ(state->inventory.gpus.size(), 8U);
  EXPECT_THAT(reason(*state, machine.uuid(3)), HasSubstr("GPU is lost"));
  // Its links are still known, so the topology does not change.
  EXPECT_EQ(state->inventory.topology, machine.expected().topology);
  EXPECT_THAT(state->problems, IsEmpty());
}

TEST(Discovery, SubtractsReservedMemoryIfConfigured) {
  const SimMachine machine("hgxh100");
  DriverOptions options = machine.options();
  options.discovery.subtract_reserved = true;
  options.discovery.machine = "my-kind";
  const Driver driver(std::move(options));
  const auto state = driver.wait_ready(kPatience);
  EXPECT_EQ(state->inventory.gpus[0].memory_mib, 81559U);
  EXPECT_EQ(state->inventory.gpus[0].reserved_mib, 480U);
  EXPECT_EQ(state->inventory.units(0), (81559U - 480U) / 1024U);
  EXPECT_EQ(state->inventory.machine, "my-kind");
}

TEST(Discovery, KeepsIdentityByUuidWhenGpusAreRenumbered) {
  SimMachine machine("dgx1v");
  machine.control("removed: [7]");
  machine.replug();
  Driver driver(machine.options());
  ASSERT_TRUE(driver.wait_ready(kPatience)->ready);
  const std::string fault = "gpus: {2: {recovery_action: reset}}\nevents: [{gpu: 2, xid: 79}]\n";
  machine.control("removed: [7]\n" + fault);
  driver.wait_for(kPatience, [](const DriverState& now) { return !now.xids.empty(); });

  // Plugging in GPU 7 reopens the session, and the new session lists the GPUs in reverse order.
  machine.control("order: [7, 6, 5, 4, 3, 2, 1, 0]\n" + fault);
  machine.replug();
  const auto state = driver.wait_for(kPatience, [&](const DriverState& now) {
    return now.inventory.find_uuid(machine.uuid(0)) == std::optional<std::size_t>(7);
  });
  const alloc::Inventory& inventory = state->inventory;
  EXPECT_EQ(inventory.gpus[5].uuid, machine.uuid(2));
  EXPECT_EQ(inventory.gpus[5].index, 5U);
  EXPECT_THAT(inventory.gpus[5].unhealthy, HasSubstr("XID 79"));
  EXPECT_EQ(inventory.unhealthy_list(), "5");
  EXPECT_EQ(inventory.gpus[5].minor, 2);
  // Links moved with their GPUs: the former pair 0-3 is 7-4 now.
  EXPECT_EQ(inventory.topology.link(7, 4), machine.expected().topology.link(0, 3));
  EXPECT_THAT(state->gone, IsEmpty());
}

TEST(Discovery, DetectsGpusThatAreUnpluggedAndPluggedIn) {
  SimMachine machine("pcie2s");
  const Driver driver(machine.options());
  ASSERT_TRUE(driver.wait_ready(kPatience)->ready);

  machine.control("removed: [1, 4]");
  machine.replug();
  EXPECT_FALSE(std::filesystem::exists(machine.path("dev/nvidia1")));
  auto state =
      driver.wait_for(kPatience, [](const DriverState& now) { return now.inventory.gpus.size() == 6; });
  EXPECT_FALSE(state->inventory.find_uuid(machine.uuid(4)));
  EXPECT_EQ(state->inventory.find_uuid(machine.uuid(2)), std::optional<std::size_t>(1));
  ASSERT_EQ(state->gone.size(), 2U);
  EXPECT_THAT(state->gone[0].unhealthy, HasSubstr("does not list"));

  machine.control("");
  machine.replug();
  // The GPUs are plugged in one after the other; wait for the last one.
  state =
      driver.wait_for(kPatience, [&](const DriverState& now) { return now.inventory == machine.expected(); });
  EXPECT_EQ(state->inventory, machine.expected());
  EXPECT_THAT(state->gone, IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(machine.path("dev/nvidia1")));
}

}  // namespace
}  // namespace tessera::gpu
