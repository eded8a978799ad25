// topology/set_tables.h
//
// Precomputed tables about the sets of GPUs of one topology. Immutable after construction, and
// shared by all nodes with the same topology.
//
//   TablePool pool;
//   std::shared_ptr<const SetTables> tables = pool.of(topology);  // the same for equal topologies
//   tables->ring_mbps(0b1001)
//
// Up to kExactGpus GPUs there is an entry for each of the 2^n sets, 15 bytes each: 4 KiB for 8
// GPUs, 960 KiB for 16. Larger machines have no table of sets; a bounded search answers their
// queries, and SetChoice::exact is false.
//
// The links are input from the node, so the time to process them is limited: the exact tables take
// the same number of steps for any links, and a bounded search has a StepBudget.
//
// The score of a set is the bottleneck of its best ring. A ring is a round trip through all GPUs of
// the set, its bottleneck is its slowest link, and the best ring has the fastest bottleneck.
// Collectives run on rings, and a ring is as fast as its slowest link.
//
// The score counts one ring, not the sum over edge-disjoint rings. On machines with direct NVLinks,
// further rings share the copy engines of the GPUs and rank sets in the same way. With NVSwitches,
// one ring already fills all links.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "topology/bandwidth.h"
#include "topology/rings.h"
#include "topology/topology.h"

namespace tessera::topology {

// Machines up to this size are searched exactly.
inline constexpr unsigned kExactGpus = 16;

class PartitionTable;

class SetTables {
 public:
  // Takes 0.03 ms for 8 GPUs, and a few milliseconds for 16 GPUs and more, whatever the links are
  // (topology_bench.cc).
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

  // The bottleneck of the best ring through the set. For two GPUs, this is the bandwidth of their
  // link; for fewer GPUs it is 0. On machines with more than kExactGpus GPUs, it is the bottleneck
  // of the best ring that a bounded search finds.
  [[nodiscard]] Mbps ring_mbps(GpuMask set) const;
  // Like ring_mbps(set), but a bounded search takes its steps from `budget`. A table needs no steps.
  [[nodiscard]] Mbps ring_mbps(GpuMask set, StepBudget& budget) const;

  // The GPUs of the set in the order of a ring whose bottleneck is ring_mbps(set), starting with
  // the lowest GPU. Empty for one GPU, and if the bounded search finds no such ring.
  [[nodiscard]] std::vector<unsigned> ring_order(GpuMask set) const;

  // The best ring of any set of `count` GPUs on the idle machine; 0 for a count below 2 or over
  // size(). With more than kExactGpus GPUs, the best ring that a bounded search finds.
  [[nodiscard]] Mbps ideal_mbps(unsigned count) const { return count < ideal_.size() ? ideal_[count] : 0; }

  // NVIDIA's pair sum of a set (bandwidth.h). It is read from a table on exact() machines and
  // computed on others.
  [[nodiscard]] std::int32_t pair_sum(GpuMask set) const {
    return exact() ? pair_tens_[set] * 10 : topology::pair_sum(topology_, set);
  }

  // The value of the free GPUs for later requests, 0 .. 65535 (see left_for_others.h). On machines
  // with more than kExactGpus GPUs, the value is the share of the total pair bandwidth that is
  // between free GPUs.
  [[nodiscard]] std::uint32_t left_for_others(GpuMask free) const;

  // Returns the table of NVIDIA's partition optimum for sets of `count` GPUs. The first call for a
  // count builds the table. Any thread may call this. Only for exact() machines.
  [[nodiscard]] const PartitionTable& partitions(unsigned count) const;

 private:
  friend class RingScan;

  void build_pairs();
  void build_rings();
  void build_merits();
  void build_pair_sums();

  // The merits of a chosen set, in the order in which RingScan visits sets.
  struct SetEntry {
    std::uint16_t set = 0;
    std::uint8_t ring_level = 0;
    std::uint8_t locality = 0;    // Locality::of_set()
    std::uint16_t pair_tens = 0;  // NVIDIA's pair sum / 10
    std::uint16_t blocks = 0;     // aligned blocks in the set
  };
  // The merits of the GPUs that remain free.
  struct RestMerit {
    std::uint16_t left = 0;    // left_for_others
    std::uint16_t blocks = 0;  // aligned blocks that remain whole
  };

  Topology topology_;
  std::vector<Mbps> mbps_;    // size() x size()
  std::vector<Mbps> levels_;  // distinct pair bandwidths, ascending
  std::vector<Mbps> ideal_;   // results of ideal_mbps(), by count

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

// Shares one SetTables between all users of equal topologies. of() returns the existing tables, or
// creates them. Not thread-safe.
class TablePool {
 public:
  std::shared_ptr<const SetTables> of(const Topology& topology);

 private:
  std::unordered_map<Topology, std::weak_ptr<const SetTables>, TopologyHash> tables_;
};

}  // namespace tessera::topology
