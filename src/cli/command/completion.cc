#include "cli/command/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace tessera::cli {

namespace {

// "TEXT:{text,wide,json}" -> "text wide json": how CLI11 tells that an option has a few values.
std::string values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) {
    return "";
  }
  return fmt::format("{}",
                     fmt::join(split(std::string_view(type).substr(open + 1, close - open - 1), ','), " "));
}

// The script's tables, command by command.
struct Tables {
  std::string paths;   // word by word from one command to the next
  std::string words;   // what can stand behind each
  std::string values;  // behind an option
};

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  for (const std::string& name : option.get_snames()) {
    names.push_back("-" + name);
  }
  return names;
}

void add_command(const CLI::App& command, const std::string& path, Tables& tables) {
  std::vector<std::string> words;
  for (const CLI::App* next : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (next->get_name().empty()) {
      for (const CLI::Option* option : next->get_options()) {  // a group of options
        for (const std::string& name : names_of(*option)) {
          words.push_back(name);
        }
      }
      continue;
    }
    words.push_back(next->get_name());
    const std::string longer = path + " " + next->get_name();
    tables.paths += fmt::format("      \"{}\") at=\"{}\" ;;\n", longer, longer);
    add_command(*next, longer, tables);
  }
  for (const CLI::Option* option : command.get_options()) {
    const std::string values = values_of(*option);
    for (const std::string& name : names_of(*option)) {
      words.push_back(name);
      if (!values.empty()) {
        tables.values += fmt::format("    \"{} {}\") offers=\"{}\" ;;\n", path, name, values);
      }
    }
  }
  tables.words += fmt::format("    \"{}\") offers=\"{}\" ;;\n", path, fmt::join(words, " "));
}

// In words that zsh understands when it plays bash, too: its own `path` and `words` are taken, and offsets
// are numbers.
std::string script(const CLI::App& app, std::string_view function) {
  Tables tables;
  add_command(app, "tessera", tables);
  return fmt::format(
      "{0}() {{\n"
      "  local cur=\"${{COMP_WORDS[COMP_CWORD]}}\" prev=\"${{COMP_WORDS[COMP_CWORD-1]}}\"\n"
      "  local at=tessera offers= word\n"
      "  for word in \"${{COMP_WORDS[@]:1:$((COMP_CWORD-1))}}\"; do\n"
      "    case \"$at $word\" in\n"
      "{1}"
      "    esac\n"
      "  done\n"
      "  case \"$at\" in\n"
      "{2}"
      "  esac\n"
      "  case \"$at $prev\" in\n"
      "{3}"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$offers\" -- \"$cur\"))\n"
      "}}\n"
      "complete -o default -F {0} tessera kubectl-tessera\n",
      function, tables.paths, tables.words, tables.values);
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  return script(app, "_tessera");
}

// compinit loads a file that begins with #compdef as the function _tessera when it is wanted for the first
// time, and then wants an answer at once; a shell that sources it has none to give.
std::string zsh_completion(const CLI::App& app) {
  return "#compdef tessera kubectl-tessera\n"
         "(( $+functions[compdef] )) || { autoload -U compinit && compinit }\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         script(app, "_tessera_words") +
         "[[ ${funcstack[1]} != _tessera ]] || _bash_complete -o default -F _tessera_words\n";
}

void add_completion_command(CLI::App& app, Action& action) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes commands in a shell");
  command->add_option("SHELL", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  command->footer(
      "Examples:\n"
      "  source <(tessera completion bash)   # in ~/.bashrc\n"
      "  source <(tessera completion zsh)    # in ~/.zshrc\n"
      "  tessera completion zsh > \"${fpath[1]}/_tessera\"   # the same, for all users of that directory");
  command->callback([&app, &action, shell] {
    action = [&app, shell] {
      std::cout << (*shell == "zsh" ? zsh_completion(app) : bash_completion(app)) << std::flush;
      return 0;
    };
  });
}

}  // namespace tessera::cli
