// sim/replay.h
//
// Lets the pods of a scenario arrive one after the other, has a policy place each, and measures after every
// one. A pod that finds no place is refused and does not come again; none leaves.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "sim/simulated_cluster.h"
#include "sim/policy.h"
#include "sim/scenario.h"
#include "sim/trace.h"

namespace tessera::sim {

// Means over the moments at which the pods that had arrived asked for about so much.
struct LoadPoint {
  int load_percent = 0;           // of all GPU capacity, placed or not
  double allocated_percent = 0;   // of all GPU capacity
  double fragmented_percent = 0;  // of all GPU capacity

  friend bool operator==(const LoadPoint&, const LoadPoint&) = default;
};

struct RunResult {
  std::uint64_t seed = 0;
  std::uint64_t placed = 0;
  std::uint64_t refused = 0;
  std::optional<double> first_refusal_percent;  // load when the first pod was refused
  std::vector<LoadPoint> curve;                 // by load
  int last_load_percent = 0;                    // what the pods were to ask for in all
  double seconds = 0;                           // of processor time

  // At this load; nothing when pods were never to ask for so much. Where a large pod skips a load, and at the
  // end where the next pod would have been too much, it is the load before.
  [[nodiscard]] std::optional<LoadPoint> at(int load_percent) const;
};

// What all runs of an experiment share.
struct Setting {
  const Trace& trace;
  const Shapes& shapes;
  std::vector<PodKind> kinds;       // what fragmentation is measured with
  std::vector<PodKind> told_kinds;  // what `fgd` is told to expect; empty: it must learn
  std::int64_t load_milli = 1300;   // what the pods ask for in all, in thousandths of all GPUs
};

// Fails only when a policy makes a choice that the ledger refuses, which is a fault of ours.
Result<RunResult> replay(const Setting& setting, const PolicyName& policy, std::uint64_t seed);

}  // namespace tessera::sim
