// Registers the options of `tessera inventory` with CLI11.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "alloc/units.h"
#include "base/strings.h"
#include "cli/command/checked_by.h"
#include "cli/machine/inventory.h"
#include "sim/machine.h"

namespace tessera::cli {

void add_inventory_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<InventoryOptions>();
  CLI::App* command =
      app.add_subcommand("inventory", "Print Node objects with GPUs, for clusters with simulated nodes");
  command
      ->add_option("--machine,-m", options->machine,
                   "A built-in machine (" + join_words(sim::builtin_machines()) +
                       "), or the path of a machine description")
      ->required();
  command
      ->add_option("--name,-n", options->name, "Name of the node; with --count, a number is appended to it")
      ->check(checked_by(check_node_name));
  command->add_option("--count,-c", options->count, "Number of nodes")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command
      ->add_option("--unit,-u", options->unit,
                   "Memory that one aliyun.com/gpu-mem stands for: GiB, MiB or an amount like 256MiB")
      ->check(checked_by(alloc::Unit::parse))
      ->capture_default_str();
  command->add_option("--output,-o", options->output, "yaml or json")
      ->check(CLI::IsMember({"yaml", "json"}))
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  tessera inventory --machine dgx1v\n"
      "  tessera inventory --machine hgxh100 --name gpu --count 1000 | kubectl apply -f -\n"
      "  tessera inventory --machine ./my-box.yaml --unit MiB -o json");
  command->callback(
      [&action, options] { action = [options] { return run_inventory(*options, std::cout, std::cerr); }; });
}

}  // namespace tessera::cli
