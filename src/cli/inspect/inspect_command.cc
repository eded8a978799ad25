// Registers the options of `tessera inspect` and of the kubectl plugins with CLI11.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "base/version.h"
#include "cli/cluster/label_selector.h"
#include "cli/command/checked_by.h"
#include "cli/command/usage_error.h"
#include "cli/inspect/inspect.h"

namespace tessera::cli {

namespace {

constexpr std::string_view kSharesPlugin = "kubectl-inspect-gpushare";
constexpr std::string_view kGpusPlugin = "kubectl-inspect-gpu";

// krew replaces the hyphens of a plugin's name with underscores.
std::string base_name(std::string_view program) {
  const std::size_t slash = program.rfind('/');
  std::string name(slash == std::string_view::npos ? program : program.substr(slash + 1));
  std::ranges::replace(name, '_', '-');
  return name;
}

void add_options(CLI::App& command, InspectOptions& options, const std::string& name) {
  const bool shares = options.kind == InspectKind::kShares;
  command.add_option("NODE", options.nodes, "Only these nodes");
  command.add_flag("-d,--details", options.details,
                   shares ? "List the pods of each node" : "Show how the GPUs of each node are connected");
  command
      .add_option("--output,-o", options.output, "text (the layout of the original tool), wide, json or yaml")
      ->check(CLI::IsMember({"text", "wide", "json", "yaml"}))
      ->capture_default_str();
  command.add_option("--sort-by", options.sort_by, "Sort key of the nodes; amounts sort from high to low")
      ->check(CLI::IsMember(shares ? share_sort_keys() : gpu_sort_keys()))
      ->capture_default_str();
  command
      .add_option("--selector,-l", options.selector,
                  "Only nodes with these labels, for example gpushare=true,!spot")
      ->check(checked_by(LabelSelector::parse));
  add_watch_options(command, options.watch);
  add_cluster_options(command, options.cluster);
  add_namespace_options(command, options.cluster,
                        "Count only the pods of this namespace (default: all namespaces)");
  command.footer(
      fmt::format("Examples:\n"
                  "  {0}\n"
                  "  {0} -d gpu-node-1\n"
                  "  {0} -o wide --watch\n"
                  "  {0} -l gpushare=true --sort-by {1}\n"
                  "  {0} -o json --file ./saved   # nodes.json and pods.json, saved with kubectl",
                  name, shares ? "percent" : "used"));
}

// The original uses Go's flag syntax: -d, --d, -d=true.
std::vector<std::string> plain_flags(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = argc - 1; i > 0; --i) {  // CLI11 expects the arguments in reverse order
    const std::string_view word = argv[i];
    if (word == "--d" || word == "-d=true" || word == "--d=true") {
      words.emplace_back("-d");
    } else if (word != "-d=false" && word != "--d=false") {
      words.emplace_back(word);
    }
  }
  return words;
}

int run_now(const InspectOptions& options) {
  return run_inspect(options, std::cout, std::cerr, Terminal::of(STDOUT_FILENO));
}

}  // namespace

bool is_inspect_plugin(std::string_view program) {
  const std::string name = base_name(program);
  return name == kSharesPlugin || name == kGpusPlugin;
}

int run_inspect_plugin(int argc, char** argv) {
  InspectOptions options;
  const bool shares = base_name(argv[0]) == kSharesPlugin;
  options.kind = shares ? InspectKind::kShares : InspectKind::kGpus;
  const std::string name = shares ? "kubectl inspect gpushare" : "kubectl inspect gpu";
  CLI::App app(
      shares ? "Show how GPU memory is allocated" : "Show which GPUs are in use and how they are connected",
      name);
  app.set_version_flag("--version", "tessera " + std::string(version()));
  app.set_help_flag("-h,--help", "Show help and examples");
  add_options(app, options, name);
  try {
    app.parse(plain_flags(argc, argv));
  } catch (const CLI::ParseError& problem) {
    return report_parse_error(app, problem, std::cout, std::cerr);
  }
  return run_now(options);
}

void add_inspect_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("inspect", "Show how GPUs are allocated, like kubectl inspect");
  command->require_subcommand(0, 1);
  // Without a subcommand it is gpushare: `tessera inspect gpu-node-1`.
  auto shares_options = std::make_shared<InspectOptions>();
  shares_options->compatible = false;
  add_options(*command, *shares_options, "tessera inspect");
  command->callback([&action, command, shares_options] {
    if (command->get_subcommands().empty()) {
      action = [shares_options] { return run_now(*shares_options); };
    }
  });
  for (const InspectKind kind : {InspectKind::kShares, InspectKind::kGpus}) {
    const bool shares = kind == InspectKind::kShares;
    auto options = std::make_shared<InspectOptions>();
    options->kind = kind;
    options->compatible = false;
    CLI::App* one = command->add_subcommand(shares ? "gpushare" : "gpu",
                                            shares ? "Show how GPU memory is allocated"
                                                   : "Show which GPUs are in use and how they are connected");
    add_options(*one, *options, shares ? "tessera inspect gpushare" : "tessera inspect gpu");
    one->callback([&action, options] { action = [options] { return run_now(*options); }; });
  }
}

}  // namespace tessera::cli
