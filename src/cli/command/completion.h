// cli/command/completion.h
//
// `tessera completion bash|zsh`: a script that completes commands, options and their values. It is
// generated from the registered commands, so it is always complete.
#pragma once

#include <string>

#include "cli/command/command.h"

namespace tessera::cli {

std::string bash_completion(const CLI::App& app);
// The bash script with a header that runs it through zsh's bashcompinit.
std::string zsh_completion(const CLI::App& app);

// Keeps a reference to `app`. Commands added after this call are completed as well.
void add_completion_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
