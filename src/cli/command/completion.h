// cli/command/completion.h
//
// `tessera completion bash|zsh|fish` prints a script that makes the shell complete command lines.
// The scripts are a few lines: for each completion they call `tessera __complete WORD...`, which
// prints one possible word per line. `__complete` knows all registered commands, so no word is missing.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command/command.h"

namespace tessera::cli {

// Names that only the cluster or the kubeconfig knows.
enum class NameKind { kNodes, kPods, kNamespaces, kContexts };

// Where to look for names, from the words that are already on the command line.
struct NameQuery {
  NameKind kind = NameKind::kNodes;
  std::string file{};  // --file
  std::string kubeconfig{};
  std::string context{};
  std::string namespace_name{};
  bool all_namespaces = false;
};

// Returns the names, or nothing on any failure: an error message would disturb the prompt.
using FindNames = std::function<std::vector<std::string>(const NameQuery&)>;

// Returns the words that can replace the last of `words`. `words` are those after the program's
// name. Returns nothing where the shell should offer files.
std::vector<std::string> complete(const CLI::App& app, std::vector<std::string> words,
                                  const FindNames& find_names);

// The script for a shell: bash, zsh or fish.
std::string completion_script(std::string_view shell);

void add_completion_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
