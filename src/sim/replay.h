// sim/replay.h
//
// Replays a scenario: pods arrive one after the other, a policy chooses GPUs for each, and the
// cluster is measured after every pod. A pod that does not fit is refused and not tried again. No
// pod ends.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "sim/policy.h"
#include "sim/scenario.h"
#include "sim/simulated_cluster.h"
#include "sim/trace.h"

namespace tessera::sim {

// The means of all measurements at one offered load. Loads are rounded to whole percents.
struct LoadPoint {
  int load_percent = 0;           // offered load: requests so far, in percent of all GPU capacity
  double allocated_percent = 0;   // of all GPU capacity
  double fragmented_percent = 0;  // of all GPU capacity

  friend bool operator==(const LoadPoint&, const LoadPoint&) = default;
};

struct RunResult {
  std::uint64_t seed = 0;
  std::uint64_t placed = 0;
  std::uint64_t refused = 0;
  std::optional<double> first_refusal_percent;  // offered load when the first pod was refused
  std::vector<LoadPoint> curve;                 // by load
  int last_load_percent = 0;                    // the load that the scenario was drawn for
  double seconds = 0;                           // of processor time

  // Returns the point at this load, or nullopt if the scenario does not reach the load. A large pod
  // can skip several percents. If there is no measurement at this load, returns the previous point.
  [[nodiscard]] std::optional<LoadPoint> at(int load_percent) const;
};

// The inputs that all runs of an experiment share.
struct Setting {
  const Trace& trace;
  const Shapes& shapes;
  std::vector<PodKind> kinds;      // for measuring fragmentation
  std::vector<PodKind> fgd_kinds;  // typical pods for `fgd`; empty: it learns them
  std::int64_t load_milli = 1300;  // requests of all pods, in thousandths of all GPUs (1300: 130%)
};

// Runs one policy on the scenario of `seed`. Fails only if the policy makes a choice that the
// ledger refuses, which is a bug.
Result<RunResult> replay(const Setting& setting, const PolicyName& policy, std::uint64_t seed);

}  // namespace tessera::sim
