#include "cli/simulate/simulate.h"

#include <fmt/core.h>

#include <algorithm>
#include <ostream>

#include "base/strings.h"
#include "cli/output/messages.h"
#include "cli/output/safe_output.h"
#include "sim/synthetic.h"

namespace tessera::cli {

namespace {

constexpr std::uint64_t kFirstSeed = 42;
constexpr std::int64_t kMostSeeds = 1000;
constexpr int kMostLoad = 10'000;

Result<std::uint64_t> parse_seed(std::string_view text) {
  const auto seed = parse_int(trim(text));
  if (!seed || *seed < 0) {
    return fail(ErrorCode::kInvalid,
                fmt::format("--seeds: {} is not a whole number of at least 0", in_quotes(text)));
  }
  return static_cast<std::uint64_t>(*seed);
}

Status check_seed_count(std::uint64_t count) {
  if (count < 1 || count > kMostSeeds) {
    return fail(
        ErrorCode::kInvalid,
        fmt::format("--seeds: there are {} seeds; use 1 to {} (write a single seed with a comma: \"7,\")",
                    count, kMostSeeds));
  }
  return {};
}

Result<std::vector<std::uint64_t>> seeds_between(std::uint64_t first, std::uint64_t last) {
  if (last < first) {
    return fail(ErrorCode::kInvalid,
                fmt::format("--seeds: the first seed, {}, is larger than the last, {}", first, last));
  }
  TRY(check_seed_count(last - first + 1));
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    seeds.push_back(seed);
  }
  return seeds;
}

Result<sim::Trace> load_trace(const SimulateOptions& options) {
  if (options.nodes.empty() && options.pods.empty()) {
    return sim::synthetic_trace(options.synthetic_nodes, 1);
  }
  if (options.nodes.empty() || options.pods.empty()) {
    return fail(ErrorCode::kInvalid,
                "--nodes and --pods belong together: give both, or neither for a synthetic workload");
  }
  return sim::read_trace(options.nodes, options.pods);
}

}  // namespace

Result<std::vector<sim::PolicyName>> parse_policies(std::string_view text) {
  if (trim(text) == "all") {
    return sim::policy_names();
  }
  std::vector<sim::PolicyName> policies;
  for (const std::string_view part : split(text, ',')) {
    const sim::PolicyName policy = TRY(with_context(sim::find_policy(trim(part)), "--policy"));
    if (std::ranges::find(policies, policy.name, &sim::PolicyName::name) == policies.end()) {
      policies.push_back(policy);
    }
  }
  return policies;
}

Result<std::vector<std::uint64_t>> parse_seeds(std::string_view text) {
  if (const std::size_t dots = text.find(".."); dots != std::string_view::npos) {
    return seeds_between(TRY(parse_seed(text.substr(0, dots))), TRY(parse_seed(text.substr(dots + 2))));
  }
  if (text.find(',') == std::string_view::npos) {
    const std::uint64_t count = TRY(parse_seed(text));
    TRY(check_seed_count(count));
    return seeds_between(kFirstSeed, kFirstSeed + count - 1);
  }
  std::vector<std::uint64_t> seeds;
  for (const std::string_view part : split(text, ',')) {
    if (!trim(part).empty()) {
      seeds.push_back(TRY(parse_seed(part)));
    }
  }
  TRY(check_seed_count(seeds.size()));
  return seeds;
}

Result<std::int64_t> parse_inflate(std::string_view text) {
  const std::string_view number = trim(text);
  const std::size_t point = std::min(number.find('.'), number.size());
  std::string digits(number.substr(0, point));
  std::string fraction(point == number.size() ? "" : number.substr(point + 1));
  const bool too_fine = fraction.size() > 3;
  fraction.resize(3, '0');
  const auto milli = parse_int(digits + fraction);
  if (digits.empty() || too_fine || !milli || *milli < 10 || *milli > 100'000) {
    return fail(ErrorCode::kInvalid,
                fmt::format("--inflate: {} is not a number from 0.01 to 100 with at most "
                            "three decimals, for example 1.3",
                            in_quotes(text)));
  }
  return *milli;
}

Result<std::vector<int>> parse_loads(std::string_view text) {
  std::vector<int> loads;
  for (const std::string_view part : split(text, ',')) {
    const auto load = parse_int(trim(part));
    if (!load || *load < 0 || *load > kMostLoad) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("--at: {} is not a whole percentage from 0 to {}, for example 100",
                              in_quotes(part), kMostLoad));
    }
    if (std::ranges::find(loads, static_cast<int>(*load)) == loads.end()) {
      loads.push_back(static_cast<int>(*load));
    }
  }
  return loads;
}

Result<Simulation> simulate(const SimulateOptions& options, const sim::Progress& progress) {
  sim::ExperimentOptions experiment;
  experiment.policies = TRY(parse_policies(options.policies));
  experiment.seeds = TRY(parse_seeds(options.seeds));
  experiment.load_milli = TRY(parse_inflate(options.inflate));
  experiment.typical_from_trace = options.typical == "trace";
  experiment.threads = options.threads;

  Simulation simulation;
  simulation.loads = TRY(parse_loads(options.at));
  const sim::Trace trace = TRY(load_trace(options));
  simulation.nodes_source = options.nodes.empty() ? "synthetic" : options.nodes;
  simulation.pods_source = options.pods.empty() ? "synthetic" : options.pods;
  simulation.nodes = trace.nodes.size();
  simulation.pods = trace.pods.size();
  simulation.gpus = trace.gpu_capacity_milli() / sim::kGpuMilli;
  simulation.demand_percent = 100.0 * static_cast<double>(trace.requested_gpu_milli()) /
                              static_cast<double>(trace.gpu_capacity_milli());
  simulation.result = TRY(sim::run_experiment(trace, experiment, progress));
  return simulation;
}

int run_simulate(const SimulateOptions& options, std::ostream& out, std::ostream& err, bool progress_on_err) {
  sim::Progress progress;
  if (progress_on_err) {
    progress = [&err](std::size_t done, std::size_t all, const sim::PolicyName& policy, std::uint64_t seed) {
      // One line that is overwritten by each update and erased at the end.
      write_control(err, fmt::format("\r\x1b[K{}/{} runs, last {} with seed {}{}", done, all, policy.name,
                                     seed, done == all ? "\r\x1b[K" : ""));
      err << std::flush;
    };
  }
  const auto simulation = simulate(options, progress);
  if (!simulation) {
    return report_error(simulation.error(), err);
  }
  if (options.output == "json") {
    print_simulation_json(*simulation, out);
  } else if (options.output == "csv") {
    print_simulation_csv(*simulation, out);
  } else if (options.output == "svg") {
    print_simulation_svg(*simulation, out);
  } else {
    print_simulation_table(*simulation, out);
  }
  return 0;
}

}  // namespace tessera::cli
