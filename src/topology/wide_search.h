// topology/wide_search.h
//
// Set search on machines with more than kExactGpus GPUs, which have too many sets to try them all.
// The search grows a set from every free GPU by repeatedly adding the GPU with the most bandwidth
// to the set. It then improves the best set by exchanging one GPU at a time. It is deterministic,
// because a number of steps limits it, not a time. When the steps are used up, the best set so far
// is the result.
#pragma once

#include "topology/set_search.h"

namespace tessera::topology {

// The steps of one search: one query, or all ideal rings of a machine. This many steps suffice for
// regular links and take a few milliseconds.
inline constexpr unsigned kWideSteps = 100'000;

// Return the chosen set. Both require a query that satisfies can_choose(), with masks within the
// topology. wide_best_effort approximates the partition optimum: it prefers the highest pair sum,
// then the lowest bandwidth between the chosen and the remaining free GPUs.
GpuMask wide_ring(const SetTables& tables, const SetQuery& query, StepBudget& budget);
GpuMask wide_best_effort(const SetTables& tables, const SetQuery& query);

// Returns, for each count, the best ring among the sets grown from single GPUs of the idle machine.
// Grows as many sets as the budget allows.
std::vector<Mbps> wide_ideals(const SetTables& tables, StepBudget& budget);

}  // namespace tessera::topology
