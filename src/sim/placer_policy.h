// sim/placer_policy.h
//
// Tessera's own policies in a replay: scores from the Placer that the extender asks too, and among equal ones
// a random node, because that is what kube-scheduler does with them.
#pragma once

#include <cstdint>
#include <vector>

#include "alloc/placer.h"
#include "alloc/typical.h"
#include "sim/simulated_cluster.h"
#include "sim/policy.h"

namespace tessera::sim {

class PlacerPolicy : public PlacementPolicy {
 public:
  // `kinds`: what `fgd` is told to expect. If there are none it learns from the pods that come.
  PlacerPolicy(alloc::Policy policy, const SimulatedCluster& cluster, const std::vector<PodKind>& kinds);

  std::optional<alloc::Choice> choose(std::uint32_t shape, Random& random) override;

 private:
  void learn(std::uint32_t shape);

  const SimulatedCluster& cluster_;
  alloc::Placer placer_;
  std::vector<alloc::Score> scores_;
  bool learns_ = false;
  alloc::RequestHistogram seen_;
  std::uint64_t pods_seen_ = 0;
};

}  // namespace tessera::sim
