#include "cli/command/help.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/version.h"
#include "cli/command/usage_error.h"

namespace tessera::cli {

void add_help_command(CLI::App& app, Action& action) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand("help", "Show help and examples of a command");
  command->add_option("COMMAND", *words, "A command, for example why or top node");
  command->footer(
      "Examples:\n"
      "  tessera help\n"
      "  tessera help top node");
  command->callback([&app, &action, words] {
    action = [&app, words] {
      std::string path;
      std::string problem;
      const CLI::App* about = find_command(app, *words, path, problem);
      if (about == nullptr) {
        std::cerr << "tessera: " << problem << '\n';
        return kUsageError;
      }
      std::cout << app.get_formatter()->make_help(about, path, CLI::AppFormatMode::Normal) << std::flush;
      return 0;
    };
  });
}

void add_version_command(CLI::App& app, Action& action) {
  auto output = std::make_shared<std::string>("text");
  CLI::App* command = app.add_subcommand("version", "Show the version of this program");
  command->add_option("--output,-o", *output, "text, json or yaml")
      ->check(CLI::IsMember({"text", "json", "yaml"}))
      ->capture_default_str();
  command->footer(
      "The agents and the extender may have other versions; \"tessera check\" compares them.\n"
      "Examples:\n"
      "  tessera version\n"
      "  tessera version -o json");
  command->callback([&action, output] {
    action = [output] {
      std::cout << (*output == "json"   ? fmt::format("{{\"version\": \"{}\"}}\n", version())
                    : *output == "yaml" ? fmt::format("version: \"{}\"\n", version())
                                        : fmt::format("tessera {}\n", version()))
                << std::flush;
      return 0;
    };
  });
}

}  // namespace tessera::cli
