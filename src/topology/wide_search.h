// topology/wide_search.h
//
// Choosing on machines with more than kExactGpus GPUs, where not every set can be looked at. Sets are grown
// from every free GPU by the link that adds most, and the best of them is improved by exchanging one GPU at a
// time, as long as that helps and a fixed number of steps is not used up. Deterministic, without a clock.
#pragma once

#include "topology/set_search.h"

namespace tessera::topology {

// Both expect a query that can_choose() and whose masks lie within the topology. wide_best_effort looks for
// the highest pair sum and then the smallest cut, which stand in for the partition optimum.
GpuMask wide_ring(const SetTables& tables, const SetQuery& query);
GpuMask wide_best_effort(const SetTables& tables, const SetQuery& query);

// For each count the best ring among sets grown from every GPU of the idle machine.
std::vector<Mbps> wide_ideals(const SetTables& tables);

}  // namespace tessera::topology
