// topology/wide_search.h
//
// Set search on machines with more than kExactGpus GPUs, which have too many sets to try them all.
// The search grows a set from every free GPU and each time adds the GPU with the most bandwidth to
// the set. The search then improves the best set by exchanging one GPU at a time. The search is
// limited by a number of steps and not by time, so its result is always the same.
#pragma once

#include "topology/set_search.h"

namespace tessera::topology {

// Return the chosen set. Both require a query that satisfies can_choose(), with masks within the
// topology. wide_best_effort approximates the partition optimum: it prefers the highest pair sum,
// then the lowest bandwidth between the chosen and the remaining free GPUs.
GpuMask wide_ring(const SetTables& tables, const SetQuery& query);
GpuMask wide_best_effort(const SetTables& tables, const SetQuery& query);

// Returns for each count (the index of the vector) the bandwidth of the best ring among the sets
// that the search grows from every GPU of the idle machine.
std::vector<Mbps> wide_ideals(const SetTables& tables);

}  // namespace tessera::topology
