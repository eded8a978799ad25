// sim/policy.h
//
// What decides where pods go in a replay: one of Tessera's policies, asked through the same Placer that the
// extender asks, or one of the policies it is compared with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/choice.h"
#include "base/result.h"
#include "sim/simulated_cluster.h"
#include "sim/random.h"
#include "sim/scenario.h"

namespace tessera::sim {

class PlacementPolicy {
 public:
  PlacementPolicy() = default;
  PlacementPolicy(const PlacementPolicy&) = delete;
  PlacementPolicy& operator=(const PlacementPolicy&) = delete;
  virtual ~PlacementPolicy() = default;

  // The place of the next pod; nothing when there is none. `random` decides what the policy leaves open.
  virtual std::optional<alloc::Choice> choose(std::uint32_t shape, Random& random) = 0;
};

struct PolicyName {
  std::string_view name;
  bool reference = false;  // not ours
  std::string_view about;
};

// All there are, ours first.
const std::vector<PolicyName>& policy_names();

// By its exact name, as `fgd` is ours and `FGD` the paper's. Case is forgiven where only one can be meant.
Result<PolicyName> find_policy(std::string_view name);

// Refers to the cluster, which must live longer. `kinds` are the pods that are typically to be expected.
std::unique_ptr<PlacementPolicy> make_policy(const PolicyName& name, const SimulatedCluster& cluster,
                                    const std::vector<PodKind>& kinds);

}  // namespace tessera::sim
