// gpu/sysfs.h
//
// What the kernel knows of the machine's PCI devices: where GPUs and network cards sit. Reads below a given
// root, /sys on a real machine. What cannot be read is told as not known; nothing here fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/index_list.h"
#include "topology/link.h"

namespace tessera::gpu {

struct PciPlace {
  // From the root complex down to the device: {"pci0000:00", "0000:00:02.0", "0000:06:00.0"}. Empty when
  // there is no such device.
  std::vector<std::string> route;
  std::int32_t numa = -1;
  topology::IndexList cpus;
  std::uint8_t pcie_generation = 0;  // of the slowest end of its slot, 3 .. 6; 0 when not known
  std::uint32_t pci_class = 0;       // 0x030200: a 3D controller; 0x068000: an NVSwitch
};

struct NicPlace {
  std::string name;  // "mlx5_0"
  PciPlace place;
};

class Sysfs {
 public:
  explicit Sysfs(std::string root = "/sys") : root_(std::move(root)) {}

  // By the kernel's name of the device: "0000:06:00.0".
  [[nodiscard]] PciPlace pci(const std::string& name) const;

  // The RDMA devices (class/infiniband), in the order of their numbers: mlx5_2 before mlx5_10.
  [[nodiscard]] std::vector<NicPlace> nics() const;

  // The PCI devices that NVIDIA's kernel driver serves, sorted. Changes when a GPU is plugged in or out.
  [[nodiscard]] std::vector<std::string> nvidia_devices() const;

  // What the maker calls the machine (class/dmi); empty when not told.
  [[nodiscard]] std::string product_name() const;

 private:
  [[nodiscard]] PciPlace place_at(const std::string& directory) const;

  std::string root_;
};

// How far apart two devices are, in the words of `nvidia-smi topo -m`. SYS when nothing better is known.
topology::PciePath path_between(const PciPlace& a, const PciPlace& b);

}  // namespace tessera::gpu
