// sim/policy.h
//
// A policy in a replay: one of Tessera's policies, run by the Placer that the extender also uses,
// or one of the policies that Tessera is compared with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/choice.h"
#include "base/result.h"
#include "sim/random.h"
#include "sim/scenario.h"
#include "sim/simulated_cluster.h"

namespace tessera::sim {

class PlacementPolicy {
 public:
  PlacementPolicy() = default;
  PlacementPolicy(const PlacementPolicy&) = delete;
  PlacementPolicy& operator=(const PlacementPolicy&) = delete;
  virtual ~PlacementPolicy() = default;

  // Returns the choice for a pod of this shape, or nullopt if the pod does not fit on any node.
  // `random` breaks ties.
  virtual std::optional<alloc::Choice> choose(std::uint32_t shape, Random& random) = 0;
};

struct PolicyName {
  std::string_view name;
  bool reference = false;  // not one of Tessera's
  std::string_view about;
};

// Returns all policies, Tessera's first.
const std::vector<PolicyName>& policy_names();

// Finds a policy by name, ignoring case. Exception: `fgd` (Tessera's) and `FGD` (the paper's)
// differ only in case, so their case must match.
Result<PolicyName> find_policy(std::string_view name);

// Returns a new policy. The cluster must outlive it. `kinds` are the typical pods.
std::unique_ptr<PlacementPolicy> make_policy(const PolicyName& name, const SimulatedCluster& cluster,
                                             const std::vector<PodKind>& kinds);

}  // namespace tessera::sim
