// sim/placer_policy.h
//
// Tessera's policies in a replay. Scores come from the Placer that the extender uses. Of nodes with
// equal scores a random one is chosen, as kube-scheduler does.
#pragma once

#include <cstdint>
#include <vector>

#include "alloc/placer.h"
#include "alloc/typical.h"
#include "sim/policy.h"
#include "sim/simulated_cluster.h"

namespace tessera::sim {

class PlacerPolicy : public PlacementPolicy {
 public:
  // `kinds` are the typical pods for `fgd`. If `kinds` is empty, `fgd` learns the typical pods from
  // the pods that arrive.
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
