// cli/simulate/simulate.h
//
// `tessera simulate`: replays a workload under several policies and shows how much of the GPUs each of them
// gives to pods.
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

// As the user wrote them.
struct SimulateOptions {
  std::string nodes;  // csv files; both empty: a workload is made up
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

// What was asked and what came out, however it is shown.
struct Simulation {
  std::string nodes_source;  // the files, or "synthetic"
  std::string pods_source;
  std::size_t nodes = 0;
  std::size_t pods = 0;
  std::int64_t gpus = 0;
  double demand_percent = 0;  // of all GPUs, before pods were added or taken out
  std::vector<int> loads;     // percent, as asked by --at
  sim::ExperimentResult result;
};

// Each fails with the option that makes no sense.
//
// "fgd,BestFit", or "all".
Result<std::vector<sim::PolicyName>> parse_policies(std::string_view text);
// "10": ten of them, from 42 on. "7,9,11" or "42..51": just these; "7," is one.
Result<std::vector<std::uint64_t>> parse_seeds(std::string_view text);
// "1.3" -> 1300. At most three digits behind the point.
Result<std::int64_t> parse_inflate(std::string_view text);
// "100,130": whole percents.
Result<std::vector<int>> parse_loads(std::string_view text);

Result<Simulation> simulate(const SimulateOptions& options, const sim::Progress& progress);

void print_simulation_table(const Simulation& simulation, std::ostream& out);
void print_simulation_csv(const Simulation& simulation, std::ostream& out);
void print_simulation_json(const Simulation& simulation, std::ostream& out);
void print_simulation_svg(const Simulation& simulation, std::ostream& out);

// 0, or 1 with the reason on `err`. `progress_on_err`: it is a terminal.
int run_simulate(const SimulateOptions& options, std::ostream& out, std::ostream& err, bool progress_on_err);

void add_simulate_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
