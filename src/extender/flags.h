// extender/flags.h
//
// The command line of tessera-extender.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "daemon/config_flags.h"
#include "extender/config.h"

namespace tessera::extender {

// A parsed command line.
struct CommandLine {
  bool print_scheduler_config = false;
  bool check_only = false;  // --check-config
  std::string merge;        // the file that --print-scheduler-config merges into; empty: none
  std::string url;          // overrides default_url()
  std::optional<std::string> scheduler_kubeconfig;
  // Reads the configuration from environment, file and flags. Called at the start, and again after
  // each SIGHUP.
  std::function<Result<Config>()> load;
};

// Returns the parsed command line. After --help, --version or a usage error, returns the exit code
// instead; the text or the error has been printed.
std::variant<CommandLine, int> parse_command_line(int argc, const char* const* argv,
                                                  daemon::Environment environment);

}  // namespace tessera::extender
