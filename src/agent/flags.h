// agent/flags.h
//
// The command line of tessera-agent.
#pragma once

#include <variant>

#include "agent/config.h"

namespace tessera::agent {

struct CommandLine {
  bool check_only = false;  // --check-config
  Config config;
};

// Either that, or the exit code of --help, --version or a mistake, all of which were printed.
std::variant<CommandLine, int> parse_command_line(int argc, const char* const* argv,
                                                  const Environment& environment);

}  // namespace tessera::agent
