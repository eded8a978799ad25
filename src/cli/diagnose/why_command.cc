// Registers the options of `tessera why` with CLI11.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/diagnose/why.h"

namespace tessera::cli {

void add_why_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<WhyOptions>();
  CLI::App* command =
      app.add_subcommand("why", "Explain for each node why a pod that requests GPUs is pending");
  command->add_option("POD", options->pod, "Name of the pod; also pod/NAME or NAMESPACE/NAME")->required();
  add_report_options(*command, options->unit, options->output);
  add_cluster_options(*command, options->cluster);
  command->add_option("--namespace,-n", options->cluster.namespace_name,
                      "Namespace of the pod (default: the namespace of the kubeconfig context)");
  command->footer(
      "Requires permission to list nodes and pods (ClusterRole tessera-viewer). With permission to list the\n"
      "pods of one namespace only, it shows what the pod itself says.\n"
      "Examples:\n"
      "  tessera why train-7 -n ml\n"
      "  tessera why ml/train-7 -o json\n"
      "  tessera why train-7 -n ml --file ./saved   # nodes.json and pods.json, saved with kubectl");
  command->callback([&action, options] {
    action = [options] { return run_why(*options, std::cout, std::cerr, Terminal::of(STDOUT_FILENO)); };
  });
}

}  // namespace tessera::cli
