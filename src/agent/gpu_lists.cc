#include "agent/gpu_lists.h"

#include <algorithm>

namespace tessera::agent {

namespace {

std::vector<std::int64_t> numa_nodes(const alloc::Inventory& inventory, std::size_t gpu) {
  std::vector<std::int64_t> nodes;
  if (gpu < inventory.topology.size()) {
    for (const topology::IndexRange& range :
         inventory.topology.place(static_cast<unsigned>(gpu)).numa.ranges()) {
      for (std::uint32_t node = range.first; node <= range.last; ++node) {
        nodes.push_back(node);
      }
    }
  }
  return nodes;
}

void add_vanished(const std::set<std::string>& held, std::vector<Device>& list) {
  std::set<std::string_view> listed;
  for (const Device& device : list) {
    listed.insert(device.id);
  }
  std::vector<Device> vanished;
  for (const std::string& id : held) {
    if (!listed.contains(id)) {
      vanished.push_back({.id = id, .healthy = false});
    }
  }
  list.insert(list.end(), vanished.begin(), vanished.end());
}

}  // namespace

GpuLists make_lists(const alloc::Inventory& inventory, GpuIds& ids, const HeldIds& held) {
  GpuLists lists;
  for (std::size_t i = 0; i < inventory.gpus.size(); ++i) {
    const alloc::Gpu& gpu = inventory.gpus[i];
    const std::vector<std::int64_t> numa = numa_nodes(inventory, i);
    lists.whole.push_back({.id = ids.whole(gpu.uuid), .healthy = gpu.healthy(), .numa = numa});
    for (std::uint32_t share = 0; share < inventory.units(i); ++share) {
      lists.shares.push_back({.id = ids.share(gpu.uuid, share), .healthy = gpu.healthy(), .numa = numa});
    }
  }
  add_vanished(held.shares, lists.shares);
  add_vanished(held.whole, lists.whole);
  return lists;
}

}  // namespace tessera::agent
