// topology/partition_table.h
//
// Computes NVIDIA's partition optimum without enumerating partitions. A partition divides the free
// GPUs into sets of equal size. The optimum is the partition with the highest total of pair sums
// (choose_best_effort() in set_search.h).
//
// Sixteen GPUs have two million partitions into pairs but only 65,536 sets. So the table stores the
// best total of every set, computed from the totals of smaller sets.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "topology/gpu_mask.h"

namespace tessera::topology {

class SetTables;

class PartitionTable {
 public:
  // Computes the table for sets of `count` GPUs. Requires 1 <= count <= tables.size() <=
  // kExactGpus. `tables` must outlive this object. Takes about 10 milliseconds and 448 KiB for 16
  // GPUs.
  PartitionTable(const SetTables& tables, unsigned count);

  // Returns the best total of pair sums over all partitions of `free` into sets of `count` GPUs and
  // at most one smaller set (the leftover).
  [[nodiscard]] std::int32_t best_total(GpuMask free) const { return best_[free]; }

  // Returns a full set of the optimum: the one that contains `required`, or the one with the
  // highest pair sum if `required` is empty. The optimum is the first of the partitions with the
  // highest total; partitions without a full set that contains `required` do not count. `free` must
  // have at least `count` GPUs and contain `required`. `required` has at most `count` GPUs.
  [[nodiscard]] GpuMask choose(GpuMask free, GpuMask required) const;

 private:
  class Walk;

  void improve_by(std::uint32_t part, std::uint32_t above, bool leftover);
  [[nodiscard]] GpuMask best_full_part(GpuMask free) const;
  // The best total if one full set must contain `required`.
  [[nodiscard]] std::int32_t best_total_with(GpuMask free, GpuMask required) const;

  const SetTables& tables_;
  unsigned count_;
  // By set of free GPUs:
  std::vector<std::int32_t> best_;         // best total
  std::vector<std::uint16_t> first_part_;  // part with the lowest GPU in the first best partition
  std::vector<std::uint8_t> divisible_;    // whether the set divides into full parts
};

}  // namespace tessera::topology
