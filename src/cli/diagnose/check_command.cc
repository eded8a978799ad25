// The options of `tessera check`, for CLI11.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/diagnose/check.h"

namespace tessera::cli {

void add_check_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = app.add_subcommand(
      "check", "Look for what does not agree: records, inventories, kubelets, schedulers, health");
  command->add_option("NODE", options->nodes, "Only findings about these nodes and their pods");
  add_report_options(*command, options->unit, options->output);
  add_cluster_options(*command, options->cluster);
  command->footer(
      "Exit code: 0 nothing is wrong, 3 something is, 1 the cluster could not be read, 2 wrong options.\n"
      "Needs no more than the right to list nodes and pods; with get on pods/proxy, the agents are asked "
      "what "
      "they gave out, and all parts for their versions.\n"
      "Examples:\n"
      "  tessera check\n"
      "  tessera check gpu-a gpu-b\n"
      "  tessera check -o json | jq '.findings[] | select(.serious)'\n"
      "  tessera check --file ./saved   # nodes.json and pods.json, saved with kubectl");
  command->callback([&action, options] {
    action = [options] { return run_check(*options, std::cout, std::cerr, Terminal::of(STDOUT_FILENO)); };
  });
}

}  // namespace tessera::cli
