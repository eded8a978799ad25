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

// Returns the allowed values of an option, which CLI11 encodes in its type name:
// "TEXT:{text,wide,json}" -> "text wide json".
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

// The branches of the script's `case` statements.
struct Tables {
  std::string paths;   // the command and the next word -> the subcommand
  std::string words;   // the command -> its subcommands and options
  std::string values;  // the command and an option -> the values of the option
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

// The script also runs in zsh under bashcompinit. So it avoids the variables `path` and `words`,
// which are special in zsh, and uses arithmetic expansion for array offsets.
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

// compinit loads a file that starts with #compdef as the function _tessera on the first completion,
// and expects this first call to complete as well. The last line does that, and does nothing in a
// shell that sources the script.
std::string zsh_completion(const CLI::App& app) {
  return "#compdef tessera kubectl-tessera\n"
         "(( $+functions[compdef] )) || { autoload -U compinit && compinit }\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         script(app, "_tessera_words") +
         "[[ ${funcstack[1]} != _tessera ]] || _bash_complete -o default -F _tessera_words\n";
}

void add_completion_command(CLI::App& app, Action& action) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a shell completion script");
  command->add_option("SHELL", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  command->footer(
      "Examples:\n"
      "  source <(tessera completion bash)   # in ~/.bashrc\n"
      "  source <(tessera completion zsh)    # in ~/.zshrc\n"
      "  tessera completion zsh > \"${fpath[1]}/_tessera\"   # for all users of this fpath directory");
  command->callback([&app, &action, shell] {
    action = [&app, shell] {
      std::cout << (*shell == "zsh" ? zsh_completion(app) : bash_completion(app)) << std::flush;
      return 0;
    };
  });
}

}  // namespace tessera::cli
