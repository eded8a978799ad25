// cli/command/command.h
//
// How a subcommand joins the `tessera` program: one function that describes its options to CLI11 and, when
// the user chose it, stores what to run. The work itself stands in a function of its own that knows no CLI11,
// so that tests call it directly.
//
//   void add_topo_command(CLI::App& app, Action& action) {
//     auto options = std::make_shared<TopoOptions>();
//     CLI::App* command = app.add_subcommand("topo", "Show how the GPUs of a machine are connected");
//     command->add_option("--file", options->file, "...");
//     command->callback([&action, options] { action = [options] { return run_topo(*options, std::cout,
//     std::cerr); }; });
//   }
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace tessera::cli {

// Runs the chosen subcommand and gives the exit code.
using Action = std::function<int()>;

}  // namespace tessera::cli
