#include "topology/bandwidth.h"

#include <algorithm>
#include <array>

namespace tessera::topology {

namespace {

constexpr Mbps kPcie3Mbps = 12'000;

unsigned newest_nvlink(const Topology& topology) {
  unsigned newest = 0;
  for (unsigned a = 1; a < topology.size(); ++a) {
    for (unsigned b = 0; b < a; ++b) {
      newest = std::max<unsigned>(newest, topology.link(a, b).generation);
    }
  }
  return newest;
}

}  // namespace

unsigned pcie_generation(const Topology& topology) {
  if (topology.pcie_generation != 0) {
    return std::clamp<unsigned>(topology.pcie_generation, 3, 6);
  }
  switch (newest_nvlink(topology)) {
    case 1:
    case 2:
      return 3;
    case 0:
    case 3:
      return 4;
    default:
      return 5;
  }
}

Mbps socket_mbps(const Topology& topology) {
  static constexpr std::array<Mbps, 4> kByPcieGeneration = {6'000, 16'000, 22'000, 40'000};
  return topology.socket_mbps != 0 ? topology.socket_mbps
                                   : kByPcieGeneration.at(pcie_generation(topology) - 3);
}

Mbps nvlink_mbps(unsigned generation) {
  static constexpr std::array<Mbps, 5> kByGeneration = {18'000, 20'000, 20'000, 20'600, 40'100};
  return kByGeneration.at(std::clamp<unsigned>(generation, 1, kByGeneration.size()) - 1);
}

Mbps pair_mbps(const Topology& topology, unsigned a, unsigned b) {
  const Link& link = topology.link(a, b);
  if (link.nvlinks > 0) {
    return link.nvlinks * nvlink_mbps(link.generation);
  }
  const Mbps x16 = kPcie3Mbps << (pcie_generation(topology) - 3);
  const Mbps node = x16 / 5 * 4;
  switch (link.path) {
    case PciePath::kPsb:
    case PciePath::kPix:
      return x16;
    case PciePath::kPxb:
      return x16 / 12 * 11;
    case PciePath::kPhb:
      return x16 / 6 * 5;
    case PciePath::kNode:
      return node;
    case PciePath::kSys:
    case PciePath::kUnknown:
      break;
  }
  return std::min(node, socket_mbps(topology));
}

std::int32_t pair_score(const Link& link) {
  static constexpr std::int32_t kPerNvlink = 100;
  static constexpr std::int32_t kMaxCounted = 18;
  static constexpr std::int32_t kPerPcieStep = 10;
  return kPerNvlink * std::min<std::int32_t>(link.nvlinks, kMaxCounted) +
         kPerPcieStep * static_cast<std::int32_t>(link.path);
}

std::int32_t pair_sum(const Topology& topology, GpuMask set) {
  std::int32_t sum = 0;
  for (const unsigned a : GpuIndices(set)) {
    for (const unsigned b : GpuIndices(set & first_gpus(a))) {
      sum += pair_score(topology.link(a, b));
    }
  }
  return sum;
}

}  // namespace tessera::topology
