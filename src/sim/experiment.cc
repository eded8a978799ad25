#include "sim/experiment.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

namespace tessera::sim {

std::optional<LoadPoint> PolicyResult::mean_at(int load_percent) const {
  LoadPoint mean{.load_percent = load_percent};
  double found = 0;
  for (const RunResult& run : runs) {
    if (const auto point = run.at(load_percent)) {
      ++found;
      mean.allocated_percent += point->allocated_percent;
      mean.fragmented_percent += point->fragmented_percent;
    }
  }
  if (found == 0) {
    return std::nullopt;
  }
  mean.allocated_percent /= found;
  mean.fragmented_percent /= found;
  return mean;
}

std::vector<LoadPoint> PolicyResult::mean_curve() const {
  std::map<int, int> loads;
  for (const RunResult& run : runs) {
    for (const LoadPoint& point : run.curve) {
      ++loads[point.load_percent];
    }
  }
  std::vector<LoadPoint> curve;
  for (const auto& [load, runs_there] : loads) {
    curve.push_back(*mean_at(load));
  }
  return curve;
}

Result<ExperimentResult> run_experiment(const Trace& trace, const ExperimentOptions& options,
                                        const Progress& progress) {
  const Shapes shapes(trace.pods);
  Setting setting{.trace = trace,
                  .shapes = shapes,
                  .kinds = typical_kinds(trace.pods, kPaperTypicalPercent),
                  .fgd_kinds = {},
                  .load_milli = options.load_milli};
  if (options.typical_from_trace) {
    setting.fgd_kinds = typical_kinds(trace.pods, kOurTypicalPercent);
  }

  // Tasks are ordered by seed, so that progress shows all policies early.
  const std::size_t all = options.policies.size() * options.seeds.size();
  std::vector<std::optional<Result<RunResult>>> results(all);
  std::atomic<std::size_t> next = 0;
  std::mutex telling;
  std::size_t done = 0;
  const auto work = [&] {
    for (std::size_t task = next++; task < all; task = next++) {
      const PolicyName& policy = options.policies[task % options.policies.size()];
      const std::uint64_t seed = options.seeds[task / options.policies.size()];
      results[task] = replay(setting, policy, seed);
      const std::scoped_lock lock(telling);
      ++done;
      if (progress) {
        progress(done, all, policy, seed);
      }
    }
  };
  {
    const unsigned wanted = options.threads > 0 ? options.threads : std::thread::hardware_concurrency();
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min<std::size_t>(std::max(wanted, 1U), all); ++i) {
      threads.emplace_back(work);
    }
    work();
  }

  ExperimentResult experiment{.options = options, .policies = {}};
  for (const PolicyName& policy : options.policies) {
    experiment.policies.push_back({.policy = policy, .runs = {}});
  }
  for (std::size_t task = 0; task < all; ++task) {
    experiment.policies[task % options.policies.size()].runs.push_back(TRY(std::move(*results[task])));
  }
  return experiment;
}

}  // namespace tessera::sim
