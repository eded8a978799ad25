// cli/savings/plan_input.h
//
// The first half of a savings plan: which pods hold which GPUs, which of them may share, and where
// they may go. Private to cli/savings.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "cli/savings/packing.h"
#include "cli/savings/plan.h"

namespace tessera::cli {

struct PlanInput {
  // Unfinished report: groups without GPU use, pods without new places, and counts of what is not planned.
  SavingsReport report{};
  PackInput pack{};
  std::map<std::string, std::int64_t> other_pods{};  // pods without GPUs that can move, by node
  std::set<std::string> divided_nodes{};             // with pods that hold MIG devices or time slices
};

// The cluster must outlive the result.
PlanInput read_plan_input(const Cluster& cluster, const Measurements& measured, const SavingsRules& rules);

}  // namespace tessera::cli
