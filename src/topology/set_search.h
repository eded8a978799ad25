// topology/set_search.h
//
// Chooses the GPUs of a node for a request for several whole GPUs. Pure functions: the result
// depends only on the arguments, not on the order of discovery, of pods or of earlier calls.
//
//   const SetQuery query{.free = 0b1111'0110, .count = 4};
//   if (const auto choice = choose_ring(*tables, query)) { take(choice->gpus); }
//
// The choose functions return nullopt if the query is impossible: the count is 0 or exceeds the
// number of free GPUs, more GPUs are required than requested, or a required GPU is not free.
#pragma once

#include <cstdint>
#include <optional>

#include "topology/set_tables.h"

namespace tessera::topology {

struct SetQuery {
  GpuMask free = 0;      // the candidates; bits beyond the topology's size are ignored
  unsigned count = 0;    // number of GPUs to choose
  GpuMask required = 0;  // GPUs that the set must contain
  GpuMask shared = 0;    // GPUs to avoid if possible, because GPU shares can use them better
};

struct SetChoice {
  GpuMask gpus = 0;
  Mbps ring_mbps = 0;             // best ring of the set; 0 for one GPU
  Mbps ideal_mbps = 0;            // best ring of any set of this size on the idle machine
  std::uint32_t left_before = 0;  // left_for_others() of the free GPUs before this choice
  std::uint32_t left_after = 0;   // left_for_others() of the free GPUs after it
  bool exact = true;              // false: the search was not exhaustive; a better set may exist

  friend bool operator==(const SetChoice&, const SetChoice&) = default;
};

// The `ring` policy: chooses the set with the best ring. Ties are broken by these criteria, in
// order:
//   1. the most value left for others (left_for_others.h)
//   2. the fewest GPUs of `shared`
//   3. the fewest NUMA nodes, then the most GPUs near a NIC (for a single GPU: no NIC nearby)
//   4. the highest pair_sum() (bandwidth.h)
//   5. the most aligned blocks (locality.h) left among the free GPUs, then in the set itself
//   6. the smallest mask
// If all pairs are equal, as with NVSwitches, locality and alignment decide.
std::optional<SetChoice> choose_ring(const SetTables& tables, const SetQuery& query);

// The `best_effort` policy of NVIDIA. Considers all partitions of the free GPUs into sets of
// query.count GPUs and one smaller set for the remainder. Takes the partition with the highest sum
// of pair scores, and chooses its best full set that contains `required`. Ties are broken
// lexicographically by index list, as NVIDIA's enumeration does for ascending indices.
std::optional<SetChoice> choose_best_effort(const SetTables& tables, const SetQuery& query);

// The `prim` policy, the search of the original GPU topology scheduler: starts with the required GPUs
// or, without any, with the free pair that has the fastest link. Then repeatedly adds the free GPU
// with the fastest link to any GPU of the set, as Prim's algorithm grows a tree. Ties between
// pairs, and the choice of a single GPU, follow the criteria of choose_ring. Ties between GPUs to add
// are broken by these criteria, in order: the most bandwidth to the whole set, not in `shared`, the
// lowest index.
std::optional<SetChoice> choose_prim(const SetTables& tables, const SetQuery& query);

// The `simple` policy: chooses the required GPUs and then the lowest indices.
std::optional<SetChoice> choose_simple(const SetTables& tables, const SetQuery& query);

// Returns whether the query can be satisfied.
[[nodiscard]] bool can_choose(const SetTables& tables, const SetQuery& query);

// Returns a SetChoice for `gpus` with all other fields computed.
SetChoice describe_choice(const SetTables& tables, const SetQuery& query, GpuMask gpus);

}  // namespace tessera::topology
