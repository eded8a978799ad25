// gpu/sysfs.h
//
// Reads facts about the PCI devices of the machine (GPUs, network cards) from sysfs, below a given
// root. Nothing here fails: facts that cannot be read are reported as unknown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/index_list.h"
#include "topology/link.h"

namespace tessera::gpu {

// The place of a PCI device in the machine.
struct PciPlace {
  // From the root complex to the device: {"pci0000:00", "0000:00:02.0", "0000:06:00.0"}. Empty if
  // there is no such device.
  std::vector<std::string> route;
  std::int32_t numa = -1;            // NUMA node; -1: unknown
  topology::IndexList cpus;          // CPUs near the device
  std::uint8_t pcie_generation = 0;  // of the device or its slot, whichever is slower; 0 if unknown
  std::uint32_t pci_class = 0;       // 0x030200: a 3D controller; 0x068000: an NVSwitch
};

struct NicPlace {
  std::string name;  // "mlx5_0"
  PciPlace place;
};

class Sysfs {
 public:
  explicit Sysfs(std::string root = "/sys") : root_(std::move(root)) {}

  // Looks up a device by its kernel name: "0000:06:00.0".
  [[nodiscard]] PciPlace pci(const std::string& name) const;

  // Returns the RDMA devices (class/infiniband), ordered by number: mlx5_2 before mlx5_10.
  [[nodiscard]] std::vector<NicPlace> nics() const;

  // Returns the sorted names of the PCI devices that are bound to NVIDIA's kernel driver. The list
  // changes when a GPU is plugged in or out.
  [[nodiscard]] std::vector<std::string> nvidia_devices() const;

  // Returns the product name of the machine (class/dmi); empty if unknown.
  [[nodiscard]] std::string product_name() const;

 private:
  [[nodiscard]] PciPlace place_at(const std::string& directory) const;

  std::string root_;
};

// Returns the PCIe path between two devices, or SYS if nothing better is known.
topology::PciePath path_between(const PciPlace& a, const PciPlace& b);

}  // namespace tessera::gpu
