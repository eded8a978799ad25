// sim/reference_policies.h
//
// The policies that Tessera is compared with, as in the artifact of "Beware of Fragmentation" (Weng
// et al., USENIX ATC 2023). Scores are integers from 0 to 100, truncated. Of nodes with equal
// scores, the first in a random but fixed order wins. Unless a policy says otherwise, it takes the
// whole GPUs with the lowest indices. For a share it takes the GPU with the least free memory among
// those that fit.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "sim/policy.h"
#include "sim/simulated_cluster.h"

namespace tessera::sim {

// Makes FirstFit, Random, DotProd, GpuClustering, GpuPacking, BestFit or FGD; returns null for any
// other name.
std::unique_ptr<PlacementPolicy> make_reference_policy(std::string_view name, const SimulatedCluster& cluster,
                                                       const std::vector<PodKind>& kinds);

}  // namespace tessera::sim
