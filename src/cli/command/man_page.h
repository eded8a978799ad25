// cli/command/man_page.h
//
// `tessera man`: the manual page. It is generated from the registered commands, so it is always
// complete.
#pragma once

#include <string>

#include "cli/command/command.h"

namespace tessera::cli {

// Returns the page in the format of man(7).
std::string man_page(const CLI::App& app);

// Adds the command. Keeps a reference to `app`, so commands added later are part of the page as
// well.
void add_man_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
