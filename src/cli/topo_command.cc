// The options of `tessera topo`, for CLI11.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "base/strings.h"
#include "cli/topo.h"
#include "sim/machine.h"

namespace tessera::cli {

void add_topo_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<TopoOptions>();
  CLI::App* command =
      app.add_subcommand("topo", "Show how the GPUs of a machine are connected and what a request gets");
  auto* source = command->add_option_group("source");
  source->add_option("--file,-f", options->file,
                     "nvidia-smi topo -m text, topology JSON or an inventory; - reads standard input");
  source->add_option(
      "--machine,-m", options->machine,
      "A built-in machine (" + join_words(sim::builtin_machines()) + "), or the path of a description");
  source->require_option(1);
  CLI::Option* count =
      command->add_option("--count,-k", options->count, "Choose this many GPUs")->check(CLI::Range(1, 64));
  CLI::Option* policy = command->add_option("--policy,-p", options->policy, "How to choose")
                            ->check(CLI::IsMember({"ring", "best_effort", "simple", "static"}))
                            ->needs(count)
                            ->capture_default_str();
  command->add_option("--taken,-t", options->taken, "GPUs that are in use, like 0,3 or 4-7");
  command->add_option("--static-table", options->static_table, "JSON table of good sets, for --policy static")
      ->needs(policy);
  command->add_option("--output,-o", options->output, "text, json or svg")
      ->check(CLI::IsMember({"text", "json", "svg"}))
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  nvidia-smi topo -m | tessera topo -f -\n"
      "  tessera topo --machine dgx1v --count 4 --taken 0,3\n"
      "  tessera topo --machine dgx1v --count 5 --policy best_effort\n"
      "  tessera topo --file matrix.txt --count 4 -o svg > matrix.svg");
  command->callback([&action, options] {
    if (options->policy == "static" && options->static_table.empty()) {
      throw CLI::RequiredError("--policy static: --static-table");
    }
    action = [options] { return run_topo(*options, std::cout, std::cerr); };
  });
}

}  // namespace tessera::cli
