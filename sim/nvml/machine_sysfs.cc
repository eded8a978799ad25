#include "machine_sysfs.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "topology/bandwidth.h"

namespace tessera::nvml_sim {

namespace {

using topology::PciePath;

constexpr unsigned kSwitches = 6;
constexpr unsigned kFirstSwitchBus = 0xF0;
constexpr unsigned kAmpere = 3;  // NVLink generation

// GPUs and network cards in one list of devices, GPUs first.
class Devices {
 public:
  explicit Devices(const topology::Topology& topology) : topology_(&topology) {}

  [[nodiscard]] unsigned size() const {
    return topology_->size() + static_cast<unsigned>(topology_->nics.size());
  }
  [[nodiscard]] bool is_gpu(unsigned device) const { return device < topology_->size(); }
  [[nodiscard]] const topology::Nic& nic(unsigned device) const {
    return topology_->nics[device - topology_->size()];
  }

  [[nodiscard]] PciePath path(unsigned a, unsigned b) const {
    if (is_gpu(a) && is_gpu(b)) {
      return topology_->link(a, b).path;
    }
    if (is_gpu(a)) {
      return nic(b).paths[a];
    }
    return is_gpu(b) ? nic(a).paths[b] : PciePath::kUnknown;
  }

  // Returns the group of each device. Devices are in one group if they are connected by `path` or
  // nearer, directly or through other devices. The number of a group is that of its first device.
  [[nodiscard]] std::vector<unsigned> groups(PciePath path) const {
    std::vector<unsigned> group(size());
    std::iota(group.begin(), group.end(), 0U);
    for (unsigned a = 0; a < size(); ++a) {
      for (unsigned b = 0; b < a; ++b) {
        if (this->path(a, b) >= path && group[a] != group[b]) {
          const auto [low, high] = std::minmax(group[a], group[b]);
          std::ranges::replace(group, unsigned{high}, unsigned{low});
        }
      }
    }
    return group;
  }

 private:
  const topology::Topology* topology_;
};

// Invents the bridges between the root complex and each device, so that the PCI tree in /sys shows
// the same PCIe paths as the description: one switch, cascaded switches or one root complex.
class Routes {
 public:
  explicit Routes(const Devices& devices)
      : devices_(&devices),
        one_switch_(devices.groups(PciePath::kPix)),
        switches_(devices.groups(PciePath::kPxb)),
        root_(devices.groups(PciePath::kPhb)) {}

  [[nodiscard]] std::string to(unsigned device, const std::string& address) const {
    const unsigned leaf = one_switch_[device];
    const unsigned top = switches_[device];
    std::string route = fmt::format("devices/pci0000:{:02x}/{}", root_[device], bridge(top, 1));
    const bool cascaded = !all_in(top, leaf);
    if (cascaded) {
      route += fmt::format("/{}/{}", bridge(top, 2), bridge(leaf, 3));
    }
    if (cascaded || std::ranges::count(one_switch_, leaf) > 1) {
      route += fmt::format("/{}/{}", bridge(leaf, 4), bridge(device, 5));
    }
    return route + "/" + address;
  }

 private:
  // Returns whether all devices below the switches of `top` are below the single switch of `leaf`.
  [[nodiscard]] bool all_in(unsigned top, unsigned leaf) const {
    for (unsigned device = 0; device < devices_->size(); ++device) {
      if (switches_[device] == top && one_switch_[device] != leaf) {
        return false;
      }
    }
    return true;
  }

  // Bridges are functions 1 to 5 of invented devices. GPUs and cards are function 0, so addresses
  // never collide.
  static std::string bridge(unsigned number, unsigned function) {
    return fmt::format("0000:{:02x}:1f.{}", number, function);
  }

  const Devices* devices_;
  std::vector<unsigned> one_switch_;
  std::vector<unsigned> switches_;
  std::vector<unsigned> root_;
};

// Converts "00000000:06:00.0" to the notation of the kernel.
std::string kernel_address(std::string bus_id) {
  std::ranges::transform(bus_id, bus_id.begin(), [](unsigned char c) { return std::tolower(c); });
  return bus_id.starts_with("0000") ? bus_id.substr(4) : bus_id;
}

std::string_view link_speed(unsigned generation) {
  switch (generation) {
    case 3:
      return "8.0 GT/s PCIe";
    case 4:
      return "16.0 GT/s PCIe";
    case 5:
      return "32.0 GT/s PCIe";
    default:
      return "64.0 GT/s PCIe";
  }
}

struct PciFiles {
  std::string_view vendor;
  std::string_view pci_class;
  std::int32_t numa = -1;
  std::string cpus;
};

void add_device(Tree& tree, const std::string& route, const std::string& address, const PciFiles& files,
                unsigned generation) {
  tree[route + "/vendor"] = {.text = fmt::format("{}\n", files.vendor)};
  tree[route + "/class"] = {.text = fmt::format("{}\n", files.pci_class)};
  tree[route + "/numa_node"] = {.text = fmt::format("{}\n", files.numa)};
  tree[route + "/local_cpulist"] = {.text = files.cpus + "\n"};
  tree[route + "/max_link_speed"] = {.text = fmt::format("{}\n", link_speed(generation))};
  tree[route + "/max_link_width"] = {.text = "16\n"};
  tree["bus/pci/devices/" + address] = {.link = true, .text = "../../../" + route};
}

// Returns the files of a network card. The card gets the NUMA node of the GPUs near it.
PciFiles nic_files(const topology::Topology& topology, const topology::Nic& nic) {
  PciFiles files{.vendor = "0x15b3", .pci_class = "0x020700", .cpus = {}};
  for (unsigned gpu = 0; gpu < topology.size(); ++gpu) {
    if (nic.paths[gpu] >= PciePath::kNode && files.numa < 0) {
      files.numa = topology.numa_node(gpu);
      files.cpus = topology.place(gpu).cpus.text();
    }
  }
  return files;
}

void add_switches(Tree& tree, const topology::Topology& topology, unsigned generation) {
  unsigned nvlink = 0;
  for (unsigned gpu = 1; gpu < topology.size(); ++gpu) {
    nvlink = topology.link(0, gpu).nvswitch ? topology.link(0, gpu).generation : nvlink;
  }
  for (unsigned i = 0; nvlink > 0 && nvlink <= kAmpere && i < kSwitches; ++i) {
    const std::string address = kernel_address(switch_bus_id(nvlink, i));
    const PciFiles files{.vendor = "0x10de", .pci_class = "0x068000", .cpus = {}};
    add_device(tree, "devices/pci0000:f0/" + address, address, files, generation);
  }
}

}  // namespace

std::string switch_bus_id(unsigned nvlink_generation, unsigned link) {
  return nvlink_generation > kAmpere
             ? "FFFFFFFF:FF:FF.0"
             : fmt::format("00000000:{:02X}:00.0", kFirstSwitchBus + link % kSwitches);
}

Tree sysfs_tree(const sim::Machine& machine, const std::set<unsigned>& removed) {
  Tree tree;
  const topology::Topology& topology = machine.topology;
  const unsigned generation = topology::pcie_generation(topology);
  const Devices devices(topology);
  const Routes routes(devices);
  for (unsigned gpu = 0; gpu < topology.size(); ++gpu) {
    if (removed.contains(gpu)) {
      continue;
    }
    const std::string address = kernel_address(machine.gpus[gpu].pci_bus_id);
    const std::string route = routes.to(gpu, address);
    const PciFiles files{.vendor = "0x10de",
                         .pci_class = "0x030200",
                         .numa = topology.numa_node(gpu),
                         .cpus = topology.place(gpu).cpus.text()};
    add_device(tree, route, address, files, generation);
    tree["bus/pci/drivers/nvidia/" + address] = {.link = true, .text = "../../../../" + route};
  }
  for (unsigned i = 0; i < topology.nics.size(); ++i) {
    const topology::Nic& nic = topology.nics[i];
    const std::string address = fmt::format("0000:{:02x}:1e.0", i);
    const std::string route = routes.to(topology.size() + i, address);
    add_device(tree, route, address, nic_files(topology, nic), generation);
    const std::string& name = nic.device.empty() ? nic.name : nic.device;
    tree["class/infiniband/" + name + "/device"] = {.link = true, .text = "../../../" + route};
  }
  add_switches(tree, topology, generation);
  tree["class/dmi/id/product_name"] = {.text = machine.name + "\n"};
  // The driver's directory exists even without GPUs.
  tree["bus/pci/drivers/nvidia/module"] = {.text = ""};
  return tree;
}

}  // namespace tessera::nvml_sim
