#include "cli/command/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace tessera::cli {

namespace {

// Bash splits words at = and gives the value of --context=x as a word of its own. zsh and fish do
// not. Both forms become "--context", "x".
std::vector<std::string> without_equals(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::size_t equals = word.find('=');
    const bool last = i + 1 == words.size();
    if (word == "=" && !out.empty() && out.back().starts_with("--")) {
      if (last) {
        out.emplace_back();
      }
    } else if (word.starts_with("--") && equals != std::string::npos && !last) {
      out.push_back(word.substr(0, equals));
      out.push_back(word.substr(equals + 1));
    } else {
      out.push_back(word);
    }
  }
  return out;
}

const CLI::Option* find_option(const CLI::App& command, const std::string& word) {
  if (!word.starts_with('-')) {
    return nullptr;
  }
  const auto options = command.get_options([&](const CLI::Option* one) { return one->check_name(word); });
  return options.empty() ? nullptr : options.front();
}

bool takes_value(const CLI::Option& option) {
  return option.get_expected_max() > 0 && option.get_type_size() > 0;
}

bool has_name(const CLI::Option& option, std::string_view long_name) {
  return std::ranges::find(option.get_lnames(), long_name) != option.get_lnames().end();
}

// Returns the allowed values of an option, which CLI11 encodes in its type name:
// "TEXT:{text,wide,json}".
std::vector<std::string> values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open == std::string::npos ? 0 : open);
  std::vector<std::string> values;
  if (open != std::string::npos && close != std::string::npos) {
    for (const std::string_view value :
         split(std::string_view(type).substr(open + 1, close - open - 1), ',')) {
      values.emplace_back(value);
    }
  }
  return values;
}

// Which names an option or an argument takes, by its name.
std::optional<NameKind> kind_of(const CLI::Option& option) {
  if (option.get_positional()) {
    const std::string name = option.get_name(true);
    return name == "NODE"  ? std::optional(NameKind::kNodes)
           : name == "POD" ? std::optional(NameKind::kPods)
                           : std::nullopt;
  }
  return has_name(option, "namespace") ? std::optional(NameKind::kNamespaces)
         : has_name(option, "context") ? std::optional(NameKind::kContexts)
                                       : std::nullopt;
}

// The state of a command line before its last word.
struct Line {
  const CLI::App* command = nullptr;
  const CLI::Option* option = nullptr;  // the last word is its value
  std::size_t arguments = 0;
  NameQuery query{};
};

void remember(const CLI::Option& option, const std::string& value, NameQuery& query) {
  for (const auto& [name, target] :
       {std::pair("file", &query.file), std::pair("kubeconfig", &query.kubeconfig),
        std::pair("context", &query.context), std::pair("namespace", &query.namespace_name)}) {
    if (has_name(option, name)) {
      *target = value;
    }
  }
}

Line read_line(const CLI::App& app, const std::vector<std::string>& words) {
  Line line{.command = &app};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (const CLI::Option* option = find_option(*line.command, word); option != nullptr) {
      line.query.all_namespaces = line.query.all_namespaces || has_name(*option, "all-namespaces");
      if (takes_value(*option)) {
        line.option = option;
        if (i + 2 < words.size()) {
          remember(*option, words[++i], line.query);
          line.option = nullptr;
        }
      }
      continue;
    }
    if (word.size() > 2 && word[0] == '-' && word[1] != '-') {  // -nml
      if (const CLI::Option* option = find_option(*line.command, word.substr(0, 2)); option != nullptr) {
        remember(*option, word.substr(2), line.query);
      }
      continue;
    }
    const auto inner =
        line.command->get_subcommands([&](const CLI::App* one) { return one->check_name(word); });
    if (!inner.empty() && line.arguments == 0) {
      line.command = inner.front();
    } else if (!word.starts_with('-')) {
      ++line.arguments;
    }
  }
  return line;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
    for (const std::string& name : option->get_snames()) {
      names.push_back("-" + name);
    }
  }
  return names;
}

// Returns the argument that the next word would be.
const CLI::Option* next_argument(const Line& line) {
  std::size_t position = 0;
  for (const CLI::Option* option :
       line.command->get_options([](const CLI::Option* one) { return one->get_positional(); })) {
    const auto most = static_cast<std::size_t>(std::max(option->get_items_expected_max(), 1));
    position += std::min<std::size_t>(most, 1U << 20U);
    if (line.arguments < position) {
      return option;
    }
  }
  return nullptr;
}

// "pod/" and "NAMESPACE/" may precede the name of a pod.
std::vector<std::string> pod_names(NameQuery query, const std::string& typed, const FindNames& find_names) {
  const std::size_t slash = typed.find('/');
  const std::string before = slash == std::string::npos ? "" : typed.substr(0, slash + 1);
  if (!before.empty() && before != "pod/") {
    query.namespace_name = typed.substr(0, slash);
  }
  std::vector<std::string> names = find_names(query);
  for (std::string& name : names) {
    name.insert(0, before);
  }
  return names;
}

std::vector<std::string> values_or_names(const CLI::Option& option, const std::string& typed, NameQuery query,
                                         const FindNames& find_names) {
  if (const auto kind = kind_of(option)) {
    query.kind = *kind;
    return *kind == NameKind::kPods ? pod_names(std::move(query), typed, find_names) : find_names(query);
  }
  return values_of(option);
}

std::vector<std::string> next_words(const CLI::App& app, const std::vector<std::string>& words,
                                    const FindNames& find_names) {
  const Line line = read_line(app, words);
  const std::string& typed = words.back();
  if (line.option != nullptr) {
    return values_or_names(*line.option, typed, line.query, find_names);
  }
  if (const std::size_t equals = typed.find('='); typed.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* option = find_option(*line.command, typed.substr(0, equals));
    std::vector<std::string> found;
    if (option != nullptr) {
      found = values_or_names(*option, typed.substr(equals + 1), line.query, find_names);
    }
    for (std::string& value : found) {
      value.insert(0, typed.substr(0, equals + 1));
    }
    return found;
  }
  if (typed.starts_with('-')) {
    return option_names(*line.command);
  }
  std::vector<std::string> found;
  if (line.arguments == 0) {
    for (const CLI::App* one : line.command->get_subcommands([](const CLI::App*) { return true; })) {
      found.push_back(one->get_name());
    }
  }
  if (const CLI::Option* argument = next_argument(line); argument != nullptr) {
    for (std::string& name : values_or_names(*argument, typed, line.query, find_names)) {
      found.push_back(std::move(name));
    }
  }
  // Options are the only words that remain.
  return found.empty() && typed.empty() ? option_names(*line.command) : found;
}

constexpr std::string_view kBash = R"(_tessera() {
  local IFS=$'\n' program="${COMP_WORDS[0]/#\~/$HOME}"
  COMPREPLY=($("$program" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _tessera tessera kubectl-tessera
)";

// compinit loads a file that starts with #compdef as the function _tessera on the first completion,
// and expects this first call to complete as well. The last line does that, and registers the
// function in a shell that sources the script.
constexpr std::string_view kZsh = R"(#compdef tessera kubectl-tessera
_tessera() {
  local -a found
  found=("${(@f)$("${words[1]/#\~/$HOME}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then
    compadd -a found
  else
    _files
  fi
}
(( $+functions[compdef] )) || { autoload -U compinit && compinit }
if [[ ${funcstack[1]} == _tessera ]]; then
  _tessera "$@"
else
  compdef _tessera tessera kubectl-tessera
fi
)";

constexpr std::string_view kFish = R"(function __tessera_find
    set -l line (commandline -opc) (commandline -ct)
    set -g __tessera_words ($line[1] __complete $line[2..-1] 2>/dev/null)
    test -n "$__tessera_words"
end
complete -c tessera -n __tessera_find -f -a '$__tessera_words'
complete -c kubectl-tessera -n __tessera_find -f -a '$__tessera_words'
)";

}  // namespace

std::vector<std::string> complete(const CLI::App& app, std::vector<std::string> words,
                                  const FindNames& find_names) {
  words = without_equals(words);
  if (words.empty()) {
    words.emplace_back();
  }
  std::vector<std::string> found = next_words(app, words, find_names);
  std::erase_if(found, [&](const std::string& word) { return !word.starts_with(words.back()); });
  return found;
}

std::string completion_script(std::string_view shell) {
  return std::string(shell == "zsh" ? kZsh : shell == "fish" ? kFish : kBash);
}

void add_completion_command(CLI::App& app, Action& action) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a shell completion script");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "The script completes commands, options and their values, and the names of nodes, pods, namespaces\n"
      "and contexts. For the names it asks the cluster for at most 2 seconds.\n"
      "Examples:\n"
      "  source <(tessera completion bash)   # in ~/.bashrc\n"
      "  source <(tessera completion zsh)    # in ~/.zshrc\n"
      "  tessera completion zsh > \"${fpath[1]}/_tessera\"   # for all users of this fpath directory\n"
      "  tessera completion fish > ~/.config/fish/completions/tessera.fish");
  command->callback([&action, shell] {
    action = [shell] {
      std::cout << completion_script(*shell) << std::flush;
      return 0;
    };
  });
}

}  // namespace tessera::cli
