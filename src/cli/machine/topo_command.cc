// Registers the options of `tessera topo` with CLI11.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <utility>

#include "base/strings.h"
#include "cli/command/checked_by.h"
#include "cli/machine/topo.h"
#include "sim/machine.h"

namespace tessera::cli {

void add_topo_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<TopoOptions>();
  CLI::App* command = app.add_subcommand(
      "topo", "Show how the GPUs of a node or machine are connected, and which GPUs a request would get");
  CLI::Option* node = command->add_option("NODE", options->node, "A node of the cluster");
  command->add_option("--file,-f", options->file,
                      "Output of nvidia-smi topo -m, topology JSON or an inventory; - reads standard input. "
                      "With NODE: a directory with nodes.json and pods.json, instead of a cluster");
  command
      ->add_option("--machine,-m", options->machine,
                   "A built-in machine (" + join_words(sim::builtin_machines()) +
                       "), or the path of a machine description")
      ->excludes(node);
  CLI::Option* count =
      command->add_option("--count,-k", options->count, "Choose this many GPUs")->check(CLI::Range(1, 64));
  CLI::Option* policy =
      command
          ->add_option("--policy,-p", options->policy,
                       "Policy to choose by (default: the policy of NODE's cluster, or ring)")
          ->check(CLI::IsMember({"ring", "best_effort", "prim", "simple", "static"}))
          ->needs(count);
  command->add_option("--taken,-t", options->taken, "GPUs that are in use, for example 0,3 or 4-7")
      ->check(checked_by(topology::parse_gpu_list));
  command
      ->add_option("--static-table", options->static_table,
                   "JSON file with the table of GPU sets, for --policy static")
      ->needs(policy);
  command
      ->add_option("--output,-o", options->output,
                   "text, wide (not adapted to a narrow terminal), json, yaml or svg")
      ->check(CLI::IsMember({"text", "wide", "json", "yaml", "svg"}))
      ->capture_default_str();
  command->add_option("--kubeconfig", options->cluster.kubeconfig, "With NODE: path of the kubeconfig")
      ->needs(node);
  command->add_option("--context", options->cluster.context, "With NODE: context of the kubeconfig to use")
      ->needs(node);
  add_watch_options(*command, options->watch);
  command->footer(
      "Examples:\n"
      "  tessera topo gpu-a\n"
      "  tessera topo gpu-a --watch\n"
      "  tessera topo gpu-a --count 4 -o svg > gpu-a.svg\n"
      "  nvidia-smi topo -m | tessera topo -f -\n"
      "  tessera topo --machine dgx1v --count 4 --taken 0,3\n"
      "  tessera topo --machine dgx1v --count 5 --policy best_effort\n"
      "  tessera topo --file matrix.txt --count 4 -o svg > matrix.svg");
  command->callback([&action, options] {
    if (options->node.empty() && options->machine.empty() == options->file.empty()) {
      throw CLI::RequiredError("one of NODE, --file and --machine");
    }
    if (!options->node.empty()) {
      options->cluster.file = std::exchange(options->file, {});
    }
    if (options->policy == "static" && options->static_table.empty()) {
      throw CLI::RequiredError("--policy static: --static-table");
    }
    if (options->watch.watch && options->node.empty()) {
      throw CLI::RequiredError("--watch: NODE");
    }
    action = [options] { return run_topo(*options, std::cout, std::cerr, Terminal::of(STDOUT_FILENO)); };
  });
}

}  // namespace tessera::cli
