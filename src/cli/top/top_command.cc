// Registers the options of `tessera top` with CLI11 and runs it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <utility>

#include "cli/cluster/cluster_watch.h"
#include "cli/cluster/label_selector.h"
#include "cli/command/checked_by.h"
#include "cli/top/top.h"

namespace tessera::cli {

namespace {

ClusterQuery query_of(const TopOptions& options) {
  ClusterQuery query;
  query.details = true;  // for the pods of the agents
  if (options.pods) {
    // The ledger needs all pods of a node. make_top() selects the pods to show.
    query.allow_restricted = true;
    query.own_namespace = options.cluster.namespace_name;
    return query;
  }
  query.node = options.names.size() == 1 ? options.names.front() : "";
  return query;
}

Result<Frame> frame_of(const TopOptions& options, Cluster cluster, const Terminal& screen) {
  const Terminal terminal = screen.for_output(options.output);
  // A user who may not list all pods finds no agents to ask.
  const bool ask = options.metrics && !cluster.restriction.any();
  TopView view = TRY(make_top(options, std::move(cluster), ask ? ask_usage(options.cluster) : Usage{}));
  Frame frame;
  frame.warnings = view.warnings;
  frame.text = options.output == "json" || options.output == "yaml" ? top_json(options, view)
               : options.pods                                       ? top_pods_text(view, terminal)
                                                                    : top_nodes_text(options, view, terminal);
  return frame;
}

void add_options(CLI::App& command, const std::shared_ptr<TopOptions>& options) {
  const bool pods = options->pods;
  command.add_option(pods ? "POD" : "NODE", options->names, pods ? "Only these pods" : "Only these nodes");
  if (!pods) {
    command.add_flag("-d,--details", options->details, "Show the pods and GPUs of each node");
    command
        .add_option_function<std::string>(
            "--gpu-mode,-m",
            [options](const std::string& mode) {
              static const std::map<std::string, std::string> kShort = {
                  {"n", "none"}, {"e", "exclusive"}, {"t", "topology"}, {"s", "share"}};
              options->mode = kShort.contains(mode) ? kShort.at(mode) : mode;
            },
            "Only nodes of this kind: none (no GPUs), exclusive, topology or share; or n, e, t, s")
        ->check(CLI::IsMember({"none", "exclusive", "topology", "share", "n", "e", "t", "s"}));
    command.add_option("--selector,-l", options->selector, "Only nodes with these labels")
        ->check(checked_by(LabelSelector::parse));
  }
  command.add_option("--output,-o", options->output, "text, wide, json or yaml")
      ->check(CLI::IsMember({"text", "wide", "json", "yaml"}))
      ->capture_default_str();
  command.add_option("--sort-by", options->sort_by, "Sort key; amounts sort from high to low")
      ->check(CLI::IsMember(top_sort_keys(pods)))
      ->capture_default_str();
  command.add_flag_callback(
      "--no-metrics", [options] { options->metrics = false; },
      "Do not read the actual usage from the agents");
  add_watch_options(command, options->watch, ",-r,--refresh");
  add_cluster_options(command, options->cluster);
  if (pods) {
    add_namespace_options(command, options->cluster,
                          "Only pods of this namespace (default: the namespace of the kubeconfig context)");
  }
}

}  // namespace

int run_top(const TopOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal) {
  WatchOptions watch = options.watch;
  watch.always = options.metrics;
  return show_cluster(
      options.cluster, query_of(options), watch,
      [&](Cluster cluster, const Terminal& now) { return frame_of(options, std::move(cluster), now); }, out,
      err, terminal);
}

void add_top_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("top", "Show how much of the GPUs is allocated and used: top node, top pod");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  tessera top node\n"
      "  tessera top node -d gpu-a\n"
      "  tessera top pod -A --sort-by used");
  for (const bool pods : {false, true}) {
    auto options = std::make_shared<TopOptions>();
    options->pods = pods;
    CLI::App* one = command->add_subcommand(
        pods ? "pod" : "node",
        pods ? "Show pods that request GPUs, and the GPUs they hold" : "Show nodes and their GPUs");
    one->alias(pods ? "pods" : "nodes");
    add_options(*one, options);
    one->footer(pods ? "Examples:\n"
                       "  tessera top pod\n"
                       "  tessera top pod -A --sort-by memory"
                     : "Examples:\n"
                       "  tessera top node\n"
                       "  tessera top node -m share\n"
                       "  tessera top node -d gpu-a\n"
                       "  tessera top node -m topology -d gpu-a   # with its links and their bandwidth");
    one->callback([&action, options] {
      action = [options] { return run_top(*options, std::cout, std::cerr, Terminal::of(STDOUT_FILENO)); };
    });
  }
}

}  // namespace tessera::cli
