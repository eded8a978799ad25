// cli/diagnose/check_scheduler.h
//
// The part of `tessera check` about scheduling: whether Tessera's scheduler or extender is running,
// whether the schedulers of GPU pods call it, and whether all components have the same version.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/cluster/cluster.h"
#include "cli/diagnose/check.h"

namespace tessera::cli {

// Returns the findings about schedulers. `cluster` must have been read with ClusterQuery::details.
// A pod that was created less than 30 s before `now` is not reported as waiting.
std::vector<Finding> check_schedulers(const Cluster& cluster, Clock::Wall now);

// Returns "ml/a, ml/b, ml/c and 5 more".
std::string names_text(const std::vector<std::string>& names);

std::vector<Finding> check_versions(const CheckAnswers& answers);

// Returns {namespace, name} of the Lease that Tessera's schedulers or extenders use for leader
// election, or nothing if there are none.
std::optional<std::pair<std::string, std::string>> lease_of(const Cluster& cluster);
// Returns a finding if the Lease does not exist or has no live holder. Returns nothing if the Lease
// is in order or could not be read.
std::optional<Finding> check_lease(const CheckAnswers& answers);

}  // namespace tessera::cli
