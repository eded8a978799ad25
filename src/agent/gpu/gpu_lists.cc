#include "agent/gpu/gpu_lists.h"

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

}  // namespace

GpuLists make_lists(const alloc::Inventory& inventory, GpuIds& ids) {
  GpuLists lists;
  for (std::size_t i = 0; i < inventory.gpus.size(); ++i) {
    const alloc::Gpu& gpu = inventory.gpus[i];
    const std::vector<std::int64_t> numa = numa_nodes(inventory, i);
    lists.whole.push_back({.id = ids.whole(gpu.uuid), .healthy = gpu.healthy(), .numa = numa});
    for (std::uint32_t share = 0; share < inventory.units(i); ++share) {
      lists.shares.push_back({.id = ids.share(gpu.uuid, share), .healthy = gpu.healthy(), .numa = numa});
    }
  }
  return lists;
}

}  // namespace tessera::agent
