// Registers the options of `tessera simulate` with CLI11.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "cli/command/checked_by.h"
#include "cli/simulate/simulate.h"

namespace tessera::cli {

namespace {

std::string policy_help() {
  std::string help = "Policies (fgd is Tessera's, FGD is the paper's):\n";
  for (const sim::PolicyName& policy : sim::policy_names()) {
    const std::string name(policy.name);
    help += "  " + name + std::string(16 - name.size(), ' ') + std::string(policy.about) + "\n";
  }
  return help;
}

}  // namespace

void add_simulate_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand(
      "simulate", "Replay a workload under several policies and compare how much they allocate");
  CLI::Option* nodes = command->add_option(
      "--nodes", options->nodes,
      "CSV file of nodes: sn,cpu_milli,memory_mib,gpu,model (default: a synthetic cluster)");
  CLI::Option* pods = command->add_option(
      "--pods", options->pods, "CSV file of pods: name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec]");
  nodes->needs(pods);
  pods->needs(nodes);
  command
      ->add_option("--synthetic-nodes", options->synthetic_nodes, "Number of nodes of the synthetic cluster")
      ->check(CLI::Range(1, 20000))
      ->excludes(nodes)
      ->capture_default_str();
  command->add_option("--policy,-p", options->policies, "Policies to compare, separated by commas, or all")
      ->check(checked_by(parse_policies))
      ->capture_default_str();
  command
      ->add_option("--seeds", options->seeds,
                   "Number of runs (seeds 42, 43, ...), or the seeds: 7,9 or 42..51")
      ->check(checked_by(parse_seeds))
      ->capture_default_str();
  command
      ->add_option("--inflate", options->inflate,
                   "Add or drop pods until they request this multiple of all GPUs")
      ->check(checked_by(parse_inflate))
      ->capture_default_str();
  command->add_option("--at", options->at, "Loads to report, in percent: GPUs requested so far, of all GPUs")
      ->check(checked_by(parse_loads))
      ->capture_default_str();
  command
      ->add_option("--typical", options->typical,
                   "What fgd knows about future pods: trace (their distribution) or recent (only past pods)")
      ->check(CLI::IsMember({"trace", "recent"}))
      ->capture_default_str();
  command->add_option("--jobs,-j", options->threads, "Number of parallel runs (default: one per processor)")
      ->check(CLI::Range(1, 256));
  command->add_option("--output,-o", options->output, "table, json, csv (full curves) or svg (a chart)")
      ->check(CLI::IsMember({"table", "json", "csv", "svg"}))
      ->capture_default_str();
  command->footer(policy_help() +
                  "\nExamples:\n"
                  "  tessera simulate\n"
                  "  tessera simulate --policy fgd,BestFit -o svg > fgd.svg\n"
                  "  tessera simulate --nodes nodes.csv --pods pods.csv --seeds 10 --at 95,100,130 -o json");
  command->callback([&action, options] {
    action = [options] { return run_simulate(*options, std::cout, std::cerr, isatty(STDERR_FILENO) != 0); };
  });
}

}  // namespace tessera::cli
