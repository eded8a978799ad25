// Registers the options of `tessera check` with CLI11.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/diagnose/check.h"

namespace tessera::cli {

void add_check_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = app.add_subcommand(
      "check",
      "Find contradictions between records, inventories, kubelets and schedulers, and unhealthy GPUs");
  command->add_option("NODE", options->nodes, "Report only findings about these nodes and their pods");
  add_report_options(*command, options->unit, options->output);
  add_watch_options(*command, options->watch);
  add_cluster_options(*command, options->cluster);
  command->footer(
      "Exit code: 0 no errors found, 3 errors found, 1 the cluster could not be read, 2 the command line is "
      "invalid.\n"
      "Requires permission to list nodes and pods. With permission to get pods/proxy, it also reads the\n"
      "allocations from the agents and the versions of all components.\n"
      "Examples:\n"
      "  tessera check\n"
      "  tessera check gpu-a gpu-b\n"
      "  tessera check --watch\n"
      "  tessera check -o json | jq '.findings[] | select(.serious)'\n"
      "  tessera check --file ./saved   # nodes.json and pods.json, saved with kubectl");
  command->callback([&action, options] {
    action = [options] { return run_check(*options, std::cout, std::cerr, Terminal::of(STDOUT_FILENO)); };
  });
}

}  // namespace tessera::cli
