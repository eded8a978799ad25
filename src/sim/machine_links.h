// sim/machine_links.h
//
// The links of a machine description, independent of YAML.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace tessera::sim {

// One line of links.rules: every pair of GPUs inside a group has this link.
struct LinkRule {
  std::uint8_t nvlinks = 0;                                // number of NVLinks; 0 in a PCIe rule
  topology::PciePath path = topology::PciePath::kUnknown;  // kUnknown in an NVLink rule
  std::vector<topology::GpuMask> groups;
};

struct LinkRules {
  std::uint8_t nvlink_generation = 0;
  bool nvswitch = false;
  // For each pair, the first matching NVLink rule and the first matching PCIe rule apply.
  std::vector<LinkRule> rules;
};

// Completes the links of `topology`. NVLink rules apply only to pairs that have neither NVLinks nor
// a PCIe path yet. PCIe rules apply only to pairs whose path is unknown. If nvlink_generation is
// not 0, it replaces the generation of all NVLinks.
void apply_rules(const LinkRules& rules, topology::Topology& topology);

// A NIC of the description. The path to a GPU that is not in `near` is NODE on the same NUMA node,
// otherwise SYS.
struct NicRule {
  std::string name;
  std::string device;
  std::int32_t numa = -1;
  std::vector<std::pair<topology::PciePath, topology::GpuMask>> near;
};

topology::Nic make_nic(const NicRule& rule, const topology::Topology& topology);

}  // namespace tessera::sim
