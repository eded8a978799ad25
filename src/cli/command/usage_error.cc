#include "cli/command/usage_error.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <ostream>

#include "base/nearest_name.h"
#include "base/strings.h"
#include "cli/command/plain_error.h"

namespace tessera::cli {

namespace {

constexpr std::size_t kMostSuggested = 3;

// A command of a command line, with its full name.
struct Chosen {
  const CLI::App* command = nullptr;
  std::string path;
};

// Returns the innermost subcommand that CLI11 has recognized.
Chosen chosen_command(const CLI::App& app) {
  Chosen chosen{.command = &app, .path = app.get_name()};
  for (auto next = app.get_subcommands(); !next.empty(); next = chosen.command->get_subcommands()) {
    chosen.command = next.front();
    chosen.path += " " + chosen.command->get_name();
  }
  return chosen;
}

// Returns "did you mean ...?" if a known name is near `word`, otherwise where to read more.
std::string advice(std::string_view word, const std::vector<std::string>& known, std::string_view prefix,
                   const std::string& path) {
  std::vector<std::string_view> names(known.begin(), known.end());
  // The first of equally near names wins. A missing letter is a more likely typo than a swap.
  std::ranges::stable_sort(names, std::greater<>(), &std::string_view::size);
  if (const auto nearest = nearest_name(word, names)) {
    return fmt::format("did you mean \"{}{}\"?", prefix, *nearest);
  }
  // The word may be the start of a name: "sav".
  std::erase_if(names, [&](std::string_view name) { return word.size() < 2 || !name.starts_with(word); });
  if (names.empty() || names.size() > kMostSuggested) {
    return fmt::format("run \"{} --help\"", path);
  }
  std::ranges::sort(names);
  std::string text;
  for (const std::string_view name : names) {
    text += fmt::format("{}\"{}{}\"", text.empty() ? "" : " or ", prefix, name);
  }
  return fmt::format("did you mean {}?", text);
}

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(one->get_name());
  }
  return names;
}

std::string unknown_command(const CLI::App& command, const std::string& path, const std::string& word) {
  const std::vector<std::string> names = command_names(command);
  const std::size_t space = path.find(' ');
  const std::string outer = space == std::string::npos ? "" : path.substr(space + 1) + " ";  // "top "
  return fmt::format("unknown command {}; {}", in_quotes(outer + word), advice(word, names, outer, path));
}

// Compares without the hyphens, which are never misspelt and would make short flags look alike.
std::string unknown_flag(const Chosen& chosen, const std::string& word) {
  const std::string_view flag = std::string_view(word).substr(0, word.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : chosen.command->get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back(name);
    }
  }
  const std::string_view bare = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  return fmt::format("unknown flag {} of \"{}\"; {}", in_quotes(flag), chosen.path,
                     advice(bare, names, "--", chosen.path));
}

bool has_only_commands(const CLI::App& command) {
  return !command.get_subcommands([](const CLI::App*) { return true; }).empty() &&
         std::ranges::none_of(command.get_options(),
                              [](const CLI::Option* option) { return option->get_positional(); });
}

bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-';
}

// Returns the error about words that no option and no subcommand has taken, because they are
// usually also the reason for the error that CLI11 reports, such as a missing argument.
std::string problem_of(const CLI::App& app, const CLI::ParseError& error) {
  const Chosen chosen = chosen_command(app);
  const std::vector<std::string> rest = app.remaining(true);
  if (!rest.empty() && !is_flag(rest.front()) && has_only_commands(*chosen.command)) {
    return unknown_command(*chosen.command, chosen.path, rest.front());
  }
  if (const auto flag = std::ranges::find_if(rest, is_flag); flag != rest.end()) {
    return unknown_flag(chosen, *flag);
  }
  if (!rest.empty()) {
    return fmt::format("{} is one argument too many; run \"{} --help\"", in_quotes(rest.front()),
                       chosen.path);
  }
  const std::string text = plain_error(error.what(), command_names(*chosen.command));
  return text.ends_with('?') ? text : fmt::format("{}; run \"{} --help\"", text, chosen.path);
}

}  // namespace

const CLI::App* find_command(const CLI::App& app, const std::vector<std::string>& words, std::string& path,
                             std::string& problem) {
  const CLI::App* command = &app;
  path = app.get_name();
  for (const std::string& word : words) {
    const auto inner = command->get_subcommands([&](const CLI::App* one) { return one->check_name(word); });
    if (inner.empty()) {
      problem = unknown_command(*command, path, word);
      return nullptr;
    }
    command = inner.front();
    path += " " + command->get_name();
  }
  return command;
}

int report_parse_error(const CLI::App& app, const CLI::ParseError& error, std::ostream& out,
                       std::ostream& err) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    return app.exit(error, out, err);  // --help, --version
  }
  err << "tessera: " << problem_of(app, error) << '\n';
  return kUsageError;
}

}  // namespace tessera::cli
