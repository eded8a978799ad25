// sim/experiment.h
//
// Runs several policies on the same pods, each with several random orders.
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
  std::int64_t load_milli = 1300;  // requests of all pods, in thousandths of all GPUs (1300: 130%)
  // True: `fgd` gets the typical pods of the trace. False: `fgd` learns them from the pods that
  // arrive.
  bool typical_from_trace = true;
  unsigned threads = 0;  // 0: one per processor
};

struct PolicyResult {
  PolicyName policy;
  std::vector<RunResult> runs;  // one for each seed

  // Return means over the runs that reached the load. mean_at() returns nullopt if no run reached
  // it.
  [[nodiscard]] std::optional<LoadPoint> mean_at(int load_percent) const;
  [[nodiscard]] std::vector<LoadPoint> mean_curve() const;
};

struct ExperimentResult {
  ExperimentOptions options;
  std::vector<PolicyResult> policies;
};

// Called after each run with the number of finished runs, the number of all runs, and the run that
// finished. Called from any thread, but never concurrently.
using Progress =
    std::function<void(std::size_t done, std::size_t all, const PolicyName&, std::uint64_t seed)>;

// Runs every policy with every seed. The result does not depend on the number of threads.
Result<ExperimentResult> run_experiment(const Trace& trace, const ExperimentOptions& options,
                                        const Progress& progress = {});

}  // namespace tessera::sim
