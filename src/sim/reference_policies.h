// sim/reference_policies.h
//
// The policies that Tessera's are compared with, as in the artifact of "Beware of Fragmentation" (Weng et
// al., USENIX ATC 2023): scores are whole numbers from 0 to 100, cut and not rounded, and of equal scores the
// first node in a random but fixed order wins. Whole GPUs are those of the lowest index; a share goes on the
// GPU that it fits most tightly, where nothing else is said.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "sim/simulated_cluster.h"
#include "sim/policy.h"

namespace tessera::sim {

// Of FirstFit, Random, DotProd, GpuClustering, GpuPacking, BestFit and FGD; null for any other name.
std::unique_ptr<PlacementPolicy> make_reference_policy(std::string_view name, const SimulatedCluster& cluster,
                                              const std::vector<PodKind>& kinds);

}  // namespace tessera::sim
