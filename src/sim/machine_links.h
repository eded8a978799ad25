// sim/machine_links.h
//
// The links of a machine description, apart from how they are written down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace tessera::sim {

// One line of links.rules: every pair inside one of the groups has this.
struct LinkRule {
  std::uint8_t nvlinks = 0;                                // either NVLinks
  topology::PciePath path = topology::PciePath::kUnknown;  // or a PCIe path
  std::vector<topology::GpuMask> groups;
};

struct LinkRules {
  std::uint8_t nvlink_generation = 0;
  bool nvswitch = false;
  std::vector<LinkRule> rules;  // the first that fits a pair counts, for NVLinks and for PCIe on its own
};

// Adds to `topology` what its links leave open: NVLinks where a pair has neither NVLinks nor a path, PCIe
// paths where they are unknown. A generation that is given replaces what was inferred.
void apply_rules(const LinkRules& rules, topology::Topology& topology);

// A NIC of the description: paths by class; other GPUs of its NUMA node are NODE away, the rest SYS.
struct NicRule {
  std::string name;
  std::string device;
  std::int32_t numa = -1;
  std::vector<std::pair<topology::PciePath, topology::GpuMask>> near;
};

topology::Nic make_nic(const NicRule& rule, const topology::Topology& topology);

}  // namespace tessera::sim
