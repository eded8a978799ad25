// sim/experiment.h
//
// Several policies on the same pods, each several times with other random orders.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "sim/replay.h"

namespace tessera::sim {

struct ExperimentOptions {
  std::vector<PolicyName> policies;
  std::vector<std::uint64_t> seeds;
  std::int64_t load_milli = 1300;
  bool tell_typical_pods = true;  // false: `fgd` learns them
  unsigned threads = 0;           // 0: as many as there are processors
};

struct PolicyResult {
  PolicyName policy;
  std::vector<RunResult> runs;  // one for each seed

  // Means over the runs that got there.
  [[nodiscard]] std::optional<LoadPoint> mean_at(int load_percent) const;
  [[nodiscard]] std::vector<LoadPoint> mean_curve() const;
};

struct ExperimentResult {
  ExperimentOptions options;
  std::vector<PolicyResult> policies;
};

// Told after each run: how many are done of how many, and which was the last. From any thread, one at a time.
using Progress =
    std::function<void(std::size_t done, std::size_t all, const PolicyName&, std::uint64_t seed)>;

// The result does not depend on how many threads there are.
Result<ExperimentResult> run_experiment(const Trace& trace, const ExperimentOptions& options,
                                        const Progress& progress = {});

}  // namespace tessera::sim
