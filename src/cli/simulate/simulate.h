// cli/simulate/simulate.h
//
// `tessera simulate`: replays a workload under several policies and shows how much GPU capacity
// each of them allocates.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/command/command.h"
#include "sim/experiment.h"

namespace tessera::cli {

// The options as text, the way the user wrote them.
struct SimulateOptions {
  std::string nodes;  // CSV files; both empty: a synthetic workload
  std::string pods;
  std::uint32_t synthetic_nodes = 200;
  std::string policies = "all";
  std::string seeds = "3";
  std::string inflate = "1.3";
  std::string at = "100,130";
  std::string typical = "trace";
  std::string output = "table";
  unsigned threads = 0;
};

// The workload and the results, independent of the output format.
struct Simulation {
  std::string nodes_source;  // the files, or "synthetic"
  std::string pods_source;
  std::size_t nodes = 0;
  std::size_t pods = 0;
  std::int64_t gpus = 0;
  double demand_percent = 0;  // GPUs that the pods request before --inflate, in percent of all GPUs
  std::vector<int> loads;     // the percentages of --at
  sim::ExperimentResult result;
};

// Parsers of option values. Each returns kInvalid, with the name of the option, for an invalid
// value.
//
// Parses "fgd,BestFit" or "all".
Result<std::vector<sim::PolicyName>> parse_policies(std::string_view text);
// Parses "10" (ten seeds, starting at 42), "7,9,11" or "42..51" (these seeds), "7," (one seed).
Result<std::vector<std::uint64_t>> parse_seeds(std::string_view text);
// Parses "1.3" and returns 1300. Accepts at most three decimals.
Result<std::int64_t> parse_inflate(std::string_view text);
// Parses whole percentages: "100,130".
Result<std::vector<int>> parse_loads(std::string_view text);

Result<Simulation> simulate(const SimulateOptions& options, const sim::Progress& progress);

void print_simulation_table(const Simulation& simulation, std::ostream& out);
void print_simulation_csv(const Simulation& simulation, std::ostream& out);
void print_simulation_json(const Simulation& simulation, std::ostream& out);
void print_simulation_svg(const Simulation& simulation, std::ostream& out);

// Runs the command and returns 0. On failure, returns 1 and writes the reason to `err`. Set
// `progress_on_err` if `err` is a terminal; progress is then shown there.
int run_simulate(const SimulateOptions& options, std::ostream& out, std::ostream& err, bool progress_on_err);

void add_simulate_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
