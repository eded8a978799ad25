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

// Returns the parsed command line with its configuration. After --help, --version or an error,
// returns the exit code instead; the text or the error has been printed.
std::variant<CommandLine, int> parse_command_line(int argc, const char* const* argv,
                                                  const daemon::Environment& environment);

}  // namespace tessera::agent
