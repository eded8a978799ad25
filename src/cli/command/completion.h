// cli/command/completion.h
//
// `tessera completion bash|zsh`: a script that completes commands, options and their values, made from the
// commands themselves so that it cannot lag behind them.
#pragma once

#include <string>

#include "cli/command/command.h"

namespace tessera::cli {

// For bash; zsh runs it through bashcompinit.
std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);

// `app` must be complete when the command runs, not yet when it is added.
void add_completion_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
