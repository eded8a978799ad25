// topology/partition_table.h
//
// NVIDIA's partition optimum without enumerating partitions: 16 GPUs have two million partitions into pairs
// but only 65,536 sets, so the best total of each set is kept and built up from smaller ones.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "topology/gpu_mask.h"

namespace tessera::topology {

class SetTables;

class PartitionTable {
 public:
  // For sets of `count` GPUs, 1 <= count <= tables.size() <= kExactGpus. Refers to `tables`. Takes up to some
  // ten milliseconds and 448 KiB for 16 GPUs.
  PartitionTable(const SetTables& tables, unsigned count);

  // The best total of pair sums over all partitions of `free` into sets of the count and at most one smaller
  // set of what is left over.
  [[nodiscard]] std::int32_t best_total(GpuMask free) const { return best_[free]; }

  // The best full set of the first best partition that has a full set holding `required`. `free` has at least
  // `count` GPUs and holds `required`, which has at most `count`.
  [[nodiscard]] GpuMask choose(GpuMask free, GpuMask required) const;

 private:
  class Walk;

  void improve_by(std::uint32_t part, std::uint32_t above, bool leftover);
  [[nodiscard]] GpuMask best_full_part(GpuMask free) const;
  // The best total when one full set must hold `required`.
  [[nodiscard]] std::int32_t best_total_with(GpuMask free, GpuMask required) const;

  const SetTables& tables_;
  unsigned count_;
  std::vector<std::int32_t> best_;            // by set of free GPUs
  std::vector<std::uint16_t> first_part_;     // of its first best partition, the part with the lowest GPU
  std::vector<std::uint8_t> comes_out_even_;  // whether it divides into full parts
};

}  // namespace tessera::topology
