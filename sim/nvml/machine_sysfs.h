// Builds the part of /sys that the machine in a description (sim/machines) would have: PCI devices
// with their switches, network cards and the product name. machine_tree.h writes these files to
// disk.
#pragma once

#include <map>
#include <set>
#include <string>

#include "sim/machine.h"

namespace tessera::nvml_sim {

struct TreeEntry {
  bool link = false;  // true: a symbolic link to `text`; false: a file with this text
  std::string text;

  friend bool operator==(const TreeEntry&, const TreeEntry&) = default;
};

// Maps paths below the root to entries: "bus/pci/devices/0000:06:00.0" -> link.
using Tree = std::map<std::string, TreeEntry>;

// Returns the tree without the unplugged GPUs `removed`.
Tree sysfs_tree(const sim::Machine& machine, const std::set<unsigned>& removed);

// Returns the PCI address that NVML reports for the remote end of link number `link` to an
// NVSwitch. Up to Ampere, this is the address of a switch. Later generations report a placeholder.
std::string switch_bus_id(unsigned nvlink_generation, unsigned link);

}  // namespace tessera::nvml_sim
