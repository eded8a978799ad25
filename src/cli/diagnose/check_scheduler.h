// cli/diagnose/check_scheduler.h
//
// The part of `tessera check` that is about who places pods: whether Tessera is there to be asked, whether
// those who place GPU pods ask it, and whether its parts are of one version.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/cluster/cluster.h"
#include "cli/diagnose/check.h"

namespace tessera::cli {

// `cluster` with its details. A pod that was created less than half a minute before `now` is not late yet.
std::vector<Finding> check_schedulers(const Cluster& cluster, Clock::Wall now);

std::vector<Finding> check_versions(const CheckAnswers& answers);

// Which Lease belongs to those who decide, as {namespace, name}; nothing where they are not known.
std::optional<std::pair<std::string, std::string>> lease_of(const Cluster& cluster);
// Nothing where it may not be read.
std::optional<Finding> check_lease(const CheckAnswers& answers);

}  // namespace tessera::cli
