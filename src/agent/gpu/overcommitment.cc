#include "agent/gpu/overcommitment.h"

#include <fmt/core.h>

#include <cstdint>
#include <map>

namespace tessera::agent {

namespace {

struct Load {
  std::uint64_t units = 0;
  bool whole = false;
  std::string who;
};

std::map<std::string, Load> loads_of(const std::vector<Holding>& neighbours) {
  std::map<std::string, Load> loads;
  for (const Holding& neighbour : neighbours) {
    const auto claims = alloc::held_shares(neighbour.request, neighbour.record);
    if (!claims) {
      continue;
    }
    for (const alloc::GpuShare& claim : *claims) {
      Load& load = loads[claim.gpu];
      load.units += claim.units;
      load.whole = load.whole || claim.whole;
      load.who = neighbour.pod;
    }
  }
  return loads;
}

}  // namespace

std::string overcommitment(const Holding& pod, const std::vector<Holding>& neighbours,
                           const alloc::Inventory& inventory) {
  const auto own = alloc::held_shares(pod.request, pod.record);
  if (!own) {
    return own.error().text();
  }
  const std::map<std::string, Load> before = loads_of(neighbours);
  for (const alloc::GpuShare& claim : *own) {
    const auto found = inventory.find_uuid(claim.gpu);
    const auto load = before.find(claim.gpu);
    if (!found) {
      continue;
    }
    const alloc::Gpu& gpu = inventory.gpus[*found];
    const std::uint32_t units = inventory.units(*found);
    if (claim.units > units) {
      return fmt::format(
          "GPU {} ({}) has {} units, and this pod's record claims {} of them; delete the pod so that it is "
          "placed anew",
          gpu.index, gpu.uuid, units, claim.units);
    }
    if (load == before.end()) {
      continue;
    }
    const bool alone = claim.whole || load->second.whole;
    if (alone || load->second.units + claim.units > units) {
      return fmt::format(
          "GPU {} ({}) is taken: {} of its {} units are held by {} and others, and this pod's record "
          "claims {}; it starts when they end",
          gpu.index, gpu.uuid, load->second.whole ? "all" : std::to_string(load->second.units), units,
          load->second.who, claim.whole ? "all" : std::to_string(claim.units));
    }
  }
  return {};
}

}  // namespace tessera::agent
