// cli/command/man_page.h
//
// `tessera man`: the manual page, made from the commands themselves so that it cannot lag behind them.
#pragma once

#include <string>

#include "cli/command/command.h"

namespace tessera::cli {

// In the language of man(7).
std::string man_page(const CLI::App& app);

// `app` must be complete when the command runs, not yet when it is added.
void add_man_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
