// agent/flags.h
//
// The command line of tessera-agent.
#pragma once

#include <variant>

#include "agent/config.h"
#include "daemon/config_flags.h"

namespace tessera::agent {

struct CommandLine {
  bool check_only = false;  // --check-config
  Config config;
};

// Returns the parsed command line with its configuration, or an exit code after --help, --version
// or an error, which has been printed.
std::variant<CommandLine, int> parse_command_line(int argc, const char* const* argv,
                                                  const daemon::Environment& environment);

}  // namespace tessera::agent
