#include "cli/command/man_page.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/strings.h"
#include "base/version.h"

namespace tessera::cli {

namespace {

// Escapes what troff would interpret: backslashes, hyphens (so that options can be copied), and
// dots and quotes at the start of a line.
std::string plain(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) {
      out += "\\&";
    }
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    line_begins = c == '\n';
  }
  return out;
}

// Returns the heading of an option: "-o, --output text|wide|json".
std::string head_of(const CLI::Option& option) {
  if (option.get_positional() && option.get_lnames().empty() && option.get_snames().empty()) {
    return option.get_name(true);
  }
  std::string head;
  for (const std::string& name : option.get_snames()) {
    head += (head.empty() ? "-" : ", -") + name;
  }
  for (const std::string& name : option.get_lnames()) {
    head += (head.empty() ? "--" : ", --") + name;
  }
  return option.get_expected_max() > 0 ? head + " " + option.get_type_name() : head;
}

void add_options(const CLI::App& command, std::string& page) {
  for (const CLI::Option* option : command.get_options()) {
    page += fmt::format(".TP\n.B {}\n{}", plain(head_of(*option)), plain(option->get_description()));
    page += option->get_default_str().empty()
                ? "\n"
                : fmt::format(" (default: {})\n", plain(option->get_default_str()));
  }
}

void add_footer(const CLI::App& command, std::string& page) {
  if (!command.get_footer().empty()) {
    page += fmt::format(".PP\n.nf\n{}\n.fi\n", plain(command.get_footer()));
  }
}

void add_command(const CLI::App& command, const std::string& path, std::string& page) {
  const std::string name = path + " " + command.get_name();
  page += fmt::format(".SS {}\n{}.\n", plain(name), plain(command.get_description()));
  add_options(command, page);
  add_footer(command, page);
  for (const CLI::App* next : command.get_subcommands([](const CLI::App*) { return true; })) {
    add_command(*next, name, page);
  }
}

}  // namespace

std::string man_page(const CLI::App& app) {
  std::string page = fmt::format(
      ".TH TESSERA 1 \"\" \"tessera {}\" \"User Commands\"\n"
      ".SH NAME\ntessera \\- {}\n"
      ".SH SYNOPSIS\n.B tessera\n.I COMMAND\n[OPTIONS]\n.br\n.B kubectl tessera\n.I COMMAND\n[OPTIONS]\n.br\n"
      ".B kubectl inspect gpushare\n[OPTIONS] [NODE...]\n.br\n.B kubectl inspect gpu\n[OPTIONS] [NODE...]\n"
      ".SH DESCRIPTION\n"
      "Shows how the GPUs of a cluster are used and why a pod is pending, checks that records, nodes and "
      "kubelets agree, and simulates policies. No command changes anything in a cluster.\n"
      ".SH OPTIONS\n",
      plain(version()), plain(app.get_description()));
  add_options(app, page);
  page += ".SH COMMANDS\n";
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    add_command(*command, "tessera", page);
  }
  page +=
      ".SH EXIT STATUS\n"
      "0 on success, 1 if the command failed, 2 if the command line is invalid. tessera check exits with 3 "
      "if it finds errors in the cluster.\n"
      ".SH ENVIRONMENT\n"
      ".TP\n.B KUBECONFIG\nPaths of kubeconfig files, as for kubectl.\n"
      ".TP\n.B NO_COLOR\nIf set, the output has no colours, even on a terminal.\n";
  return page;
}

void add_man_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("man", "Print the manual page");
  command->footer(
      "Examples:\n"
      "  tessera man | man -l -\n"
      "  tessera man > /usr/local/share/man/man1/tessera.1");
  command->callback([&app, &action] {
    action = [&app] {
      std::cout << man_page(app) << std::flush;
      return 0;
    };
  });
}

}  // namespace tessera::cli
