// The part of /sys that a machine of a description would have: its PCI devices with their switches, the
// network cards, the product's name. As a value; machine_tree.h writes it.
#pragma once

#include <map>
#include <set>
#include <string>

#include "sim/machine.h"

namespace tessera::nvml_sim {

struct TreeEntry {
  bool link = false;  // a symbolic link to `text`, else a file that holds it
  std::string text;

  friend bool operator==(const TreeEntry&, const TreeEntry&) = default;
};

// By path below the root: "bus/pci/devices/0000:06:00.0" -> link.
using Tree = std::map<std::string, TreeEntry>;

// Without the GPUs that are unplugged.
Tree sysfs_tree(const sim::Machine& machine, const std::set<unsigned>& removed);

// Where link number `link` of a GPU behind NVSwitches ends, as NVML tells it: an address of a switch up to
// Ampere, a placeholder later.
std::string switch_bus_id(unsigned nvlink_generation, unsigned link);

}  // namespace tessera::nvml_sim
