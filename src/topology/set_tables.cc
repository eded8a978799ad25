#include "topology/set_tables.h"

#include <algorithm>
#include <utility>

#include "topology/left_for_others.h"
#include "topology/locality.h"
#include "topology/partition_table.h"
#include "topology/wide_search.h"

namespace tessera::topology {

SetTables::SetTables(Topology topology) : topology_(std::move(topology)) {
  build_pairs();
  if (exact()) {
    build_rings();
    build_pair_sums();
    build_merits();
  } else {
    StepBudget budget(kWideSteps);
    ideal_ = wide_ideals(*this, budget);
  }
}

SetTables::~SetTables() = default;

void SetTables::build_pairs() {
  mbps_.assign(std::size_t{size()} * size(), 0);
  // Guess what is not specified once, not once per pair: the guess looks at all links.
  Topology specified = topology_;
  specified.pcie_generation = static_cast<std::uint8_t>(pcie_generation(topology_));
  specified.socket_mbps = socket_mbps(topology_);
  for (unsigned a = 1; a < size(); ++a) {
    for (unsigned b = 0; b < a; ++b) {
      mbps_[a * size() + b] = mbps_[b * size() + a] = topology::pair_mbps(specified, a, b);
    }
  }
  levels_ = bandwidth_levels(mbps_, size());
}

void SetTables::build_rings() {
  ring_level_ = best_ring_levels(mbps_, size(), levels_);
  ideal_.assign(size() + 1, 0);
  for (std::uint32_t set = 0; set < ring_level_.size(); ++set) {
    if (const unsigned count = gpu_count(set); count >= 2) {
      ideal_[count] = std::max(ideal_[count], levels_[ring_level_[set]]);
    }
  }
}

// Computes each set from the set without its lowest GPU. Pair scores are multiples of ten, and 120
// pairs of at most 1,860 stay below 2^16 tens.
void SetTables::build_pair_sums() {
  pair_tens_.assign(ring_level_.size(), 0);
  for (GpuMask set = 1; set < pair_tens_.size(); ++set) {
    const unsigned lowest = lowest_gpu(set);
    const GpuMask others = set & (set - 1);
    std::int32_t sum = 0;
    for (const unsigned other : GpuIndices(others)) {
      sum += pair_score(topology_.link(lowest, other));
    }
    pair_tens_[set] = static_cast<std::uint16_t>(pair_tens_[others] + sum / 10);
  }
}

void SetTables::build_merits() {
  const Locality locality(topology_);
  const auto left = topology::left_for_others(size(), ring_level_, levels_);
  rest_merit_.resize(ring_level_.size());
  by_count_.resize(size() + 1);
  for (std::uint32_t set = 0; set < ring_level_.size(); ++set) {
    const std::uint16_t blocks = locality.whole_blocks(set);
    rest_merit_[set] = {.left = left[set], .blocks = blocks};
    by_count_[gpu_count(set)].push_back({.set = static_cast<std::uint16_t>(set),
                                         .ring_level = ring_level_[set],
                                         .locality = locality.of_set(set),
                                         .pair_tens = pair_tens_[set],
                                         .blocks = blocks});
  }
  for (std::vector<SetEntry>& sets : by_count_) {
    // Not stable_sort, which does not compile with clang and libstdc++ 12. The order is total
    // anyway, because the sets differ.
    std::ranges::sort(sets, [](const SetEntry& a, const SetEntry& b) {
      return a.ring_level != b.ring_level ? a.ring_level > b.ring_level : a.set < b.set;
    });
  }
}

Mbps SetTables::ring_mbps(GpuMask set) const {
  StepBudget budget(kWideSteps);
  return ring_mbps(set, budget);
}

Mbps SetTables::ring_mbps(GpuMask set, StepBudget& budget) const {
  if (gpu_count(set) < 2) {
    return 0;
  }
  return exact() ? levels_[ring_level_[set]] : bounded_ring(mbps_, size(), levels_, set, budget);
}

std::vector<unsigned> SetTables::ring_order(GpuMask set) const {
  return find_ring(mbps_, size(), set, ring_mbps(set));
}

std::uint32_t SetTables::left_for_others(GpuMask free) const {
  if (exact()) {
    return rest_merit_[free].left;
  }
  std::uint64_t among_free = 0;
  std::uint64_t among_all = 0;
  for (unsigned a = 1; a < size(); ++a) {
    for (unsigned b = 0; b < a; ++b) {
      among_all += pair_mbps(a, b);
      among_free += (free >> a & free >> b & 1U) != 0 ? pair_mbps(a, b) : 0;
    }
  }
  return static_cast<std::uint32_t>(among_free * 0xffff / among_all);
}

const PartitionTable& SetTables::partitions(unsigned count) const {
  LazyPartitions& lazy = partitions_.at(count);
  std::call_once(lazy.once, [&] { lazy.table = std::make_unique<PartitionTable>(*this, count); });
  return *lazy.table;
}

std::shared_ptr<const SetTables> TablePool::of(const Topology& topology) {
  std::weak_ptr<const SetTables>& slot = tables_[topology];
  std::shared_ptr<const SetTables> tables = slot.lock();
  if (!tables) {
    std::erase_if(tables_,
                  [&](const auto& entry) { return entry.second.expired() && &entry.second != &slot; });
    tables = std::make_shared<const SetTables>(topology);
    slot = tables;
  }
  return tables;
}

}  // namespace tessera::topology
