#include "sim/machine_links.h"

#include <algorithm>

namespace tessera::sim {

using topology::GpuMask;
using topology::Link;
using topology::PciePath;

namespace {

bool covers(const LinkRule& rule, unsigned a, unsigned b) {
  const GpuMask pair = topology::gpu_bit(a) | topology::gpu_bit(b);
  return std::ranges::any_of(rule.groups, [&](GpuMask group) { return (pair & ~group) == 0; });
}

}  // namespace

void apply_rules(const LinkRules& rules, topology::Topology& topology) {
  for (unsigned a = 1; a < topology.size(); ++a) {
    for (unsigned b = 0; b < a; ++b) {
      Link link = topology.link(a, b);
      const bool open = link == Link{};
      for (const LinkRule& rule : rules.rules) {
        if (!covers(rule, a, b)) {
          continue;
        }
        if (rule.nvlinks > 0 && open && link.nvlinks == 0) {
          link.nvlinks = rule.nvlinks;
          link.nvswitch = rules.nvswitch;
        }
        if (rule.nvlinks == 0 && link.path == PciePath::kUnknown) {
          link.path = rule.path;
        }
      }
      if (link.nvlinks > 0 && rules.nvlink_generation > 0) {
        link.generation = rules.nvlink_generation;
      }
      topology.set_link(a, b, link);
    }
  }
}

topology::Nic make_nic(const NicRule& rule, const topology::Topology& topology) {
  topology::Nic nic{.name = rule.name, .device = rule.device, .paths = {}};
  for (unsigned gpu = 0; gpu < topology.size(); ++gpu) {
    PciePath path = rule.numa >= 0 && topology.numa_node(gpu) == rule.numa ? PciePath::kNode : PciePath::kSys;
    for (const auto& [near, gpus] : rule.near) {
      path = (gpus & topology::gpu_bit(gpu)) != 0 ? std::max(path, near) : path;
    }
    nic.paths.push_back(path);
  }
  return nic;
}

}  // namespace tessera::sim
