// topology/wide_search.h
//
// Set search on machines with more than kExactGpus GPUs, which have too many sets to try them all.
// Grows a set from every free GPU, adding the GPU with the most bandwidth each time. Then improves
// the best set by exchanging one GPU at a time, up to a fixed number of steps. Deterministic; the
// limit is a number of steps, not a time.
#pragma once

#include "topology/set_search.h"

namespace tessera::topology {

// Both require a query that satisfies can_choose() and masks within the topology. wide_best_effort
// maximizes the pair sum and then minimizes the bandwidth that it cuts, as an approximation of the
// partition optimum.
GpuMask wide_ring(const SetTables& tables, const SetQuery& query);
GpuMask wide_best_effort(const SetTables& tables, const SetQuery& query);

// Returns, for each count, the best ring among the sets grown from every GPU of the idle machine.
std::vector<Mbps> wide_ideals(const SetTables& tables);

}  // namespace tessera::topology
