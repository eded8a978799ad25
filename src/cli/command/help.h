// cli/command/help.h
//
// `tessera help [COMMAND...]` prints the same as `tessera COMMAND... --help`, and
// `tessera version` the same as `tessera --version`.
#pragma once

#include "cli/command/command.h"

namespace tessera::cli {

// Adds the command. Keeps a reference to `app`, so commands added later have help as well.
void add_help_command(CLI::App& app, Action& action);

void add_version_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
