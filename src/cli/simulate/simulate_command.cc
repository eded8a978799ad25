// The options of `tessera simulate`, for CLI11.
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
  std::string help = "Policies (fgd is ours, FGD the paper's):\n";
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
      "simulate", "Replay a workload under several policies and compare what they allocate");
  CLI::Option* nodes =
      command->add_option("--nodes", options->nodes,
                          "Nodes, csv: sn,cpu_milli,memory_mib,gpu,model (default: a made-up cluster)");
  CLI::Option* pods = command->add_option(
      "--pods", options->pods, "Pods, csv: name,cpu_milli,memory_mib,num_gpu,gpu_milli[,gpu_spec]");
  nodes->needs(pods);
  pods->needs(nodes);
  command->add_option("--synthetic-nodes", options->synthetic_nodes, "Size of the made-up cluster")
      ->check(CLI::Range(1, 20000))
      ->excludes(nodes)
      ->capture_default_str();
  command->add_option("--policy,-p", options->policies, "Policies to compare, comma separated, or all")
      ->check(checked_by(parse_policies))
      ->capture_default_str();
  command
      ->add_option("--seeds", options->seeds, "How many repetitions (from seed 42), or which: 7,9 or 42..51")
      ->check(checked_by(parse_seeds))
      ->capture_default_str();
  command
      ->add_option("--inflate", options->inflate,
                   "Add or drop pods until they ask for so many times all GPUs")
      ->check(checked_by(parse_inflate))
      ->capture_default_str();
  command->add_option("--at", options->at, "Report at these loads: percent of all GPUs that pods asked for")
      ->check(checked_by(parse_loads))
      ->capture_default_str();
  command
      ->add_option("--typical", options->typical,
                   "What fgd knows of coming pods: trace (their distribution) or recent (those that came)")
      ->check(CLI::IsMember({"trace", "recent"}))
      ->capture_default_str();
  command->add_option("--jobs,-j", options->threads, "Runs at a time (default: one for each processor)")
      ->check(CLI::Range(1, 256));
  command->add_option("--output,-o", options->output, "table, json, csv (whole curves) or svg (a picture)")
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
