// cli/savings/option_matches.h
//
// Finds option values that match nothing in the cluster, which are probably misspelt. Private to
// cli/savings.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster/cluster.h"
#include "cli/savings/plan.h"

namespace tessera::cli {

// Returns one warning for each model, namespace, selector or label of the rules that matches nothing,
// with the names that exist.
std::vector<std::string> unmatched_options(const Cluster& cluster, const SavingsRules& rules,
                                           const SavingsReport& report);

}  // namespace tessera::cli
