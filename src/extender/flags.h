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
#include "extender/config.h"

namespace tessera::extender {

// What the command line asks for, and how the configuration is made again after SIGHUP.
struct CommandLine {
  bool print_scheduler_config = false;
  bool check_only = false;  // --check-config
  std::string merge;        // file to merge into; empty: none
  std::string url;          // instead of default_url()
  std::optional<std::string> scheduler_kubeconfig;
  // Environment, file and flags, read now.
  std::function<Result<Config>()> load;
};

// Either that, or the exit code of --help, --version or a mistake, all of which were printed.
std::variant<CommandLine, int> parse_command_line(int argc, const char* const* argv, Environment environment);

}  // namespace tessera::extender
