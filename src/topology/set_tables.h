// topology/set_tables.h
//
// Everything about the sets of GPUs of one topology that can be known before anybody asks: built once, never
// changed, shared by all nodes with equal wiring.
//
//   TablePool pool;
//   std::shared_ptr<const SetTables> tables = pool.of(topology);   // equal topologies: the same tables
//   tables->ring_mbps(0b1001)
//
// Up to kExactGpus GPUs there is an entry for each of the 2^n sets, 15 bytes each: 4 KiB for 8 GPUs,
// 960 KiB for 16. Larger machines get no table of sets; their questions are answered by a bounded search.
//
// The score of a set is the bottleneck of its best ring: of all ways to visit its GPUs once and come back,
// the way whose slowest link is fastest. Collectives run on rings, and a ring is as fast as its slowest link.
// It is one ring, not the sum over edge-disjoint rings: on machines with direct NVLinks further rings share
// the GPUs' copy engines and rank sets the same way, and behind NVSwitches one ring already fills all links.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "topology/bandwidth.h"
#include "topology/topology.h"

namespace tessera::topology {

// Machines up to this size are searched exactly.
inline constexpr unsigned kExactGpus = 16;

class PartitionTable;

class SetTables {
 public:
  // Costs 0.03 ms for 8 GPUs and 6 to 20 ms for 16, by how irregular the links are (topology_bench.cc).
  explicit SetTables(Topology topology);
  ~SetTables();
  SetTables(const SetTables&) = delete;
  SetTables& operator=(const SetTables&) = delete;
  SetTables(SetTables&&) = delete;
  SetTables& operator=(SetTables&&) = delete;

  [[nodiscard]] const Topology& topology() const { return topology_; }
  [[nodiscard]] unsigned size() const { return topology_.size(); }
  [[nodiscard]] bool exact() const { return size() <= kExactGpus; }

  [[nodiscard]] Mbps pair_mbps(unsigned a, unsigned b) const { return mbps_[a * size() + b]; }

  // Bottleneck of the best ring through the set; for two GPUs their link, for fewer 0. On machines over
  // kExactGpus the best ring that a bounded search found.
  [[nodiscard]] Mbps ring_mbps(GpuMask set) const;

  // The GPUs of the set in the order of that ring, from the lowest; empty for one GPU, and where a bounded
  // search does not find it again.
  [[nodiscard]] std::vector<unsigned> ring_order(GpuMask set) const;

  // The best ring any set of this many GPUs of the idle machine has; 0 for a count below 2 or over size().
  [[nodiscard]] Mbps ideal_mbps(unsigned count) const { return count < ideal_.size() ? ideal_[count] : 0; }

  // NVIDIA's pair sum of a set, on exact() machines from the table.
  [[nodiscard]] std::int32_t pair_sum(GpuMask set) const {
    return exact() ? pair_tens_[set] * 10 : topology::pair_sum(topology_, set);
  }

  // What free GPUs are worth to those who come later, 0 .. 65535 (left_for_others.h says how it is reckoned;
  // on machines over kExactGpus the share of all pair bandwidth that is among them).
  [[nodiscard]] std::uint32_t left_for_others(GpuMask free) const;

  // NVIDIA's partition optimum for sets of `count`; made at the first call. exact() machines only.
  [[nodiscard]] const PartitionTable& partitions(unsigned count) const;

 private:
  friend class RingScan;

  void build_pairs();
  void build_rings();
  void build_merits();
  void build_pair_sums();

  // What a set is to its taker, in the order in which RingScan looks at sets.
  struct SetEntry {
    std::uint16_t set = 0;
    std::uint8_t ring_level = 0;
    std::uint8_t locality = 0;    // fewer NUMA nodes, then NICs near
    std::uint16_t pair_tens = 0;  // NVIDIA's pair sum / 10
    std::uint16_t blocks = 0;     // aligned blocks it consists of
  };
  // What GPUs left over are to all others.
  struct RestMerit {
    std::uint16_t left = 0;    // left_for_others
    std::uint16_t blocks = 0;  // aligned blocks kept whole
  };

  Topology topology_;
  std::vector<Mbps> mbps_;    // size() x size()
  std::vector<Mbps> levels_;  // distinct pair bandwidths, ascending
  std::vector<Mbps> ideal_;   // by count

  std::vector<std::uint8_t> ring_level_;         // by set: index into levels_
  std::vector<std::uint16_t> pair_tens_;         // by set
  std::vector<RestMerit> rest_merit_;            // by set
  std::vector<std::vector<SetEntry>> by_count_;  // best ring first, then ascending

  struct LazyPartitions {
    std::once_flag once;
    std::unique_ptr<PartitionTable> table;
  };
  mutable std::array<LazyPartitions, kExactGpus + 1> partitions_;
};

// Hands out tables, one for all equal topologies that are in use. For one thread.
class TablePool {
 public:
  std::shared_ptr<const SetTables> of(const Topology& topology);

 private:
  std::unordered_map<Topology, std::weak_ptr<const SetTables>, TopologyHash> tables_;
};

}  // namespace tessera::topology
