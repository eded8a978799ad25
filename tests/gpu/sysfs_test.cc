#include "gpu/sysfs.h"

#include <gmock/gmock.h>

#include "sim_machine.h"

namespace tessera::gpu {
namespace {

using topology::PciePath;

PciPlace place(std::vector<std::string> route, std::int32_t numa = 0) {
  PciPlace place;
  place.route = std::move(route);
  place.numa = numa;
  return place;
}

TEST(PciePaths, FollowTheBridgesBetweenTwoDevices) {
  const PciPlace gpu = place({"pci0000:00", "0000:00:02.0", "0000:02:00.0", "0000:03:08.0", "0000:04:00.0"});
  const PciPlace same_switch =
      place({"pci0000:00", "0000:00:02.0", "0000:02:00.0", "0000:03:09.0", "0000:05:00.0"});
  const PciPlace next_switch = place({"pci0000:00", "0000:00:02.0", "0000:02:00.0", "0000:03:0a.0",
                                      "0000:06:00.0", "0000:07:00.0", "0000:08:00.0"});
  const PciPlace same_root = place({"pci0000:00", "0000:00:03.0", "0000:09:00.0"});
  const PciPlace same_node = place({"pci0000:40", "0000:40:01.0", "0000:41:00.0"});
  const PciPlace far = place({"pci0000:80", "0000:80:01.0", "0000:81:00.0"}, 1);
  EXPECT_EQ(path_between(gpu, same_switch), PciePath::kPix);
  EXPECT_EQ(path_between(gpu, next_switch), PciePath::kPxb);
  EXPECT_EQ(path_between(gpu, same_root), PciePath::kPhb);
  EXPECT_EQ(path_between(gpu, same_node), PciePath::kNode);
  EXPECT_EQ(path_between(gpu, far), PciePath::kSys);
  EXPECT_EQ(path_between(gpu, place({}, -1)), PciePath::kSys);
}

TEST(Sysfs, ReportsUnknownIfTheTreeIsMissing) {
  const Sysfs sysfs("/nowhere");
  EXPECT_TRUE(sysfs.pci("0000:06:00.0").route.empty());
  EXPECT_EQ(sysfs.pci("0000:06:00.0").numa, -1);
  EXPECT_TRUE(sysfs.nics().empty());
  EXPECT_TRUE(sysfs.nvidia_devices().empty());
  EXPECT_EQ(sysfs.product_name(), "");
}

TEST(Sysfs, OrdersNicsByNumber) {
  const TemporaryDirectory root;
  std::filesystem::create_directories(root / "devices/pci0000:00/0000:01:00.0");
  for (const char* name : {"mlx5_10", "mlx5_9", "mlx5_0"}) {
    std::filesystem::create_directories(root / (std::string("class/infiniband/") + name));
    std::filesystem::create_symlink("../../../devices/pci0000:00/0000:01:00.0",
                                    root / (std::string("class/infiniband/") + name + "/device"));
  }
  std::vector<std::string> names;
  for (const NicPlace& nic : Sysfs(root.path()).nics()) {
    names.push_back(nic.name);
  }
  EXPECT_THAT(names, testing::ElementsAre("mlx5_0", "mlx5_9", "mlx5_10"));
}

TEST(Sysfs, UsesTheSlowerOfDeviceAndSlot) {
  const TemporaryDirectory root;
  const std::string device = root / "devices/pci0000:00/0000:00:01.0/0000:01:00.0";
  std::filesystem::create_directories(device);
  std::filesystem::create_directories(root / "bus/pci/devices");
  std::filesystem::create_symlink(device, root / "bus/pci/devices/0000:01:00.0");
  ASSERT_TRUE(write_file(device + "/max_link_speed", "32.0 GT/s PCIe\n"));
  ASSERT_TRUE(write_file(root / "devices/pci0000:00/0000:00:01.0/max_link_speed", "16.0 GT/s PCIe\n"));
  ASSERT_TRUE(write_file(device + "/numa_node", "-1\n"));
  const PciPlace place = Sysfs(root.path()).pci("0000:01:00.0");
  EXPECT_EQ(place.pcie_generation, 4);
  EXPECT_EQ(place.numa, -1);
  EXPECT_EQ(place.route.size(), 3U);
}

// /sys of a simulated machine shows the same PCIe path for every pair of GPUs as its description.
class SimulatedSysfs : public testing::TestWithParam<std::string> {};

TEST_P(SimulatedSysfs, AgreesWithTheDescription) {
  const SimMachine machine(GetParam());
  const Sysfs sysfs(machine.path("sys"));
  const alloc::Inventory expected = machine.expected();
  std::vector<PciPlace> places;
  for (const alloc::Gpu& gpu : expected.gpus) {
    std::string name = gpu.pci_bus_id.substr(4);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    places.push_back(sysfs.pci(name));
  }
  for (unsigned a = 1; a < places.size(); ++a) {
    for (unsigned b = 0; b < a; ++b) {
      EXPECT_EQ(path_between(places[a], places[b]), expected.topology.link(a, b).path) << a << " " << b;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, SimulatedSysfs, testing::ValuesIn(sim::builtin_machines()),
                         [](const auto& machine) { return machine.param; });

}  // namespace
}  // namespace tessera::gpu
