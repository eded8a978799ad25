#include "cli/app.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/version.h"
#include "cli/cluster/find_names.h"
#include "cli/command/command.h"
#include "cli/command/completion.h"
#include "cli/command/help.h"
#include "cli/command/man_page.h"
#include "cli/command/usage_error.h"
#include "cli/diagnose/check.h"
#include "cli/diagnose/why.h"
#include "cli/inspect/inspect.h"
#include "cli/machine/inventory.h"
#include "cli/machine/topo.h"
#include "cli/output/safe_output.h"
#include "cli/savings/savings.h"
#include "cli/simulate/simulate.h"
#include "cli/top/top.h"

namespace tessera::cli {

namespace {

// A prompt that does not answer for longer disturbs more than missing names.
constexpr std::chrono::seconds kCompletionTime{2};

// Returns the exit code of a command that returned `code`: 1 if its output could not be written. A
// reader that has closed the pipe (`| head`) has read all it wants, so that is no error.
int checked_output(const SafeOutput& output, int code) {
  std::cout.flush();
  if (output.error() == 0 || output.error() == EPIPE) {
    return code;
  }
  std::cerr << "tessera: cannot write the output: " << std::generic_category().message(output.error())
            << '\n';
  return 1;
}

int run_command(int argc, char** argv) {
  if (argc > 0 && is_inspect_plugin(argv[0])) {
    return run_inspect_plugin(argc, argv);
  }
  CLI::App app("GPU sharing and topology-aware GPU scheduling for Kubernetes", "tessera");
  app.set_version_flag("--version", "tessera " + std::string(version()));
  app.set_help_flag("-h,--help", "Show help and examples");
  app.require_subcommand(0, 1);
  app.footer(
      "Examples:\n"
      "  tessera check                 # find problems in the cluster\n"
      "  tessera why train-7 -n ml     # why is this pod pending?\n"
      "  tessera top node              # how full are the GPUs?\n"
      "  tessera topo gpu-a --count 4  # which four GPUs of this node would a job get?\n"
      "  tessera savings               # how many GPUs would sharing free?\n"
      "  tessera simulate              # how do the policies compare on a recorded workload?\n"
      "  tessera why --help            # help for one command");
  Action action;
  add_check_command(app, action);
  add_completion_command(app, action);
  add_help_command(app, action);
  add_inspect_command(app, action);
  add_inventory_command(app, action);
  add_man_command(app, action);
  add_savings_command(app, action);
  add_simulate_command(app, action);
  add_top_command(app, action);
  add_topo_command(app, action);
  add_version_command(app, action);
  add_why_command(app, action);

  // Called by the completion scripts for every press of the Tab key.
  if (argc > 1 && std::string_view(argv[1]) == "__complete") {
    end_process_after(kCompletionTime);
    for (const std::string& word : complete(app, {argv + 2, argv + argc}, find_names)) {
      std::cout << word << '\n';
    }
    return 0;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return report_parse_error(app, problem, std::cout, std::cerr);
  }
  if (!action) {
    std::cout << app.help();
    return 0;
  }
  return action();
}

}  // namespace

int run(int argc, char** argv) {
  const SafeOutput safe_out(std::cout);
  const SafeOutput safe_err(std::cerr);
  return checked_output(safe_out, run_command(argc, argv));
}

}  // namespace tessera::cli
