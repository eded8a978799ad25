// topology/set_search.h
//
// Which GPUs of a node a request for several whole GPUs gets. Pure functions of their arguments: the order in
// which GPUs were told, pods came or tables were built never shows.
//
//   const SetQuery query{.free = 0b1111'0110, .count = 4};
//   if (const auto choice = choose_ring(*tables, query)) { take(choice->gpus); }
//
// All return nothing when the query cannot be met: count 0 or more than are free, more GPUs required than
// asked for, or a required GPU that is not free.
#pragma once

#include <cstdint>
#include <optional>

#include "topology/set_tables.h"

namespace tessera::topology {

struct SetQuery {
  GpuMask free = 0;      // may be taken; bits over the topology's size are ignored
  unsigned count = 0;    // how many
  GpuMask required = 0;  // must be among them
  GpuMask shared = 0;    // better left alone: taking them would hurt shares of GPU memory
};

struct SetChoice {
  GpuMask gpus = 0;
  Mbps ring_mbps = 0;             // best ring of the set; 0 for one GPU
  Mbps ideal_mbps = 0;            // best ring of any set of this size on the idle machine
  std::uint32_t left_before = 0;  // left_for_others of the free GPUs before and
  std::uint32_t left_after = 0;   // after taking these
  bool exact = true;              // false: found by a bounded search, there may be better ones

  friend bool operator==(const SetChoice&, const SetChoice&) = default;
};

// The best ring; among equal ones what leaves most to others, takes fewest of `shared`, spans fewest NUMA
// nodes, has NICs near (for a single GPU: needs none), the highest pair sum, breaks fewest aligned blocks of
// the free GPUs, is made of such blocks itself, and then the smallest mask. Where all pairs are equal, as
// behind NVSwitches, locality and alignment decide.
std::optional<SetChoice> choose_ring(const SetTables& tables, const SetQuery& query);

// NVIDIA's best effort: of all ways to divide the free GPUs into sets of this size (and one smaller one if it
// does not come out even) the one with the highest sum of pair scores, and of it the best full set that holds
// `required`. Ties go to what a dictionary of index lists has first, as NVIDIA's enumeration does when given
// ascending indices.
std::optional<SetChoice> choose_best_effort(const SetTables& tables, const SetQuery& query);

// The required ones and then the lowest indices.
std::optional<SetChoice> choose_simple(const SetTables& tables, const SetQuery& query);

// True when a set could be chosen at all.
[[nodiscard]] bool can_choose(const SetTables& tables, const SetQuery& query);

// Fills in what a SetChoice says about `gpus`.
SetChoice describe_choice(const SetTables& tables, const SetQuery& query, GpuMask gpus);

}  // namespace tessera::topology
