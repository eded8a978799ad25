#include "topology/locality.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tessera::topology {

namespace {

// Adds the aligned blocks of 2, 4, 8, ... GPUs in the given order.
void add_aligned_blocks(const std::vector<unsigned>& order, std::vector<GpuMask>& blocks) {
  for (std::size_t length = 2; length <= order.size(); length *= 2) {
    for (std::size_t start = 0; start + length <= order.size(); start += length) {
      GpuMask block = 0;
      for (std::size_t i = start; i < start + length; ++i) {
        block |= gpu_bit(order[i]);
      }
      blocks.push_back(block);
    }
  }
}

}  // namespace

Locality::Locality(const Topology& topology) {
  std::map<std::int32_t, std::vector<unsigned>> by_node;
  for (unsigned gpu = 0; gpu < topology.size(); ++gpu) {
    by_node[topology.numa_node(gpu)].push_back(gpu);
    if (topology.near_nics(gpu) != 0) {
      near_a_nic_ |= gpu_bit(gpu);
    }
  }
  for (auto& [node, gpus] : by_node) {
    std::ranges::sort(gpus, {}, [&](unsigned gpu) { return std::pair(topology.near_nics(gpu), gpu); });
    add_aligned_blocks(gpus, blocks_);
    GpuMask whole = 0;
    for (const unsigned gpu : gpus) {
      whole |= gpu_bit(gpu);
    }
    numa_nodes_.push_back(whole);
    blocks_.push_back(whole);
  }
  blocks_.push_back(topology.all());
  std::ranges::sort(blocks_);
  const auto repeated = std::ranges::unique(blocks_);
  blocks_.erase(repeated.begin(), repeated.end());
  std::erase_if(blocks_, [](GpuMask block) { return gpu_count(block) < 2; });
}

std::uint8_t Locality::of_set(GpuMask set) const {
  unsigned nodes = 0;
  for (const GpuMask node : numa_nodes_) {
    nodes += (set & node) != 0 ? 1U : 0U;
  }
  const unsigned with_nic = gpu_count(set & near_a_nic_);
  const unsigned nics = gpu_count(set) == 1 ? 1 - with_nic : with_nic;
  // Two digits in one number: distinguishes up to 15 NUMA nodes and 16 GPUs.
  return static_cast<std::uint8_t>((15 - std::min(nodes, 15U)) * 17 + std::min(nics, 16U));
}

std::uint16_t Locality::whole_blocks(GpuMask free) const {
  std::uint32_t worth = 0;
  for (const GpuMask block : blocks_) {
    if ((block & free) == block) {
      worth += gpu_count(block) * gpu_count(block);
    }
  }
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(worth, 0xffff));
}

}  // namespace tessera::topology
