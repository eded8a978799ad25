// cli/command/completion.h
//
// `tessera completion bash|zsh`: a script that completes commands, options and their values. It is
// generated from the registered commands, so it is always complete.
#pragma once

#include <string>

#include "cli/command/command.h"

namespace tessera::cli {

std::string bash_completion(const CLI::App& app);
// Returns the script for zsh: the bash script, preceded by lines that load zsh's bashcompinit.
std::string zsh_completion(const CLI::App& app);

// Adds the command. Keeps a reference to `app`, so commands added later are completed as well.
void add_completion_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
