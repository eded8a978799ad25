// cli/command/command.h
//
// How a subcommand registers with the `tessera` program: one function that describes the
// subcommand's options to CLI11. If the user chooses the subcommand, CLI11 calls its callback,
// which stores the action to run. The work itself is in a separate function that does not depend on
// CLI11, so that tests can call it directly.
//
//   void add_topo_command(CLI::App& app, Action& action) {
//     auto options = std::make_shared<TopoOptions>();
//     CLI::App* command = app.add_subcommand("topo", "Show how GPUs are connected");
//     command->add_option("--file", options->file, "...");
//     command->callback([&action, options] {
//       action = [options] { return run_topo(*options, std::cout, std::cerr); };
//     });
//   }
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace tessera::cli {

// Runs the chosen subcommand and returns its exit code.
using Action = std::function<int()>;

}  // namespace tessera::cli
