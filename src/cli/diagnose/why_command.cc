// Registers the options of `tessera why` with CLI11.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/command/checked_by.h"
#include "cli/diagnose/why.h"

namespace tessera::cli {

void add_why_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<WhyOptions>();
  CLI::App* command =
      app.add_subcommand("why", "Explain for each node why a pod that requests GPUs is pending");
  CLI::Option* pod =
      command
          ->add_option("POD", options->pod,
                       "Name of the pod; also NAMESPACE/NAME or KIND/NAME with the kind pod, job, cronjob, "
                       "deploy, sts, rs or ds (default: list all pods that wait)")
          ->check(checked_by(WhyTarget::parse));
  add_report_options(*command, options->unit, options->output);
  add_watch_options(*command, options->watch);
  add_cluster_options(*command, options->cluster);
  add_namespace_options(*command, options->cluster,
                        "Namespace of the pods (default: the namespace of the kubeconfig context)");
  command->get_option("--all-namespaces")->excludes(pod);
  command->footer(
      "Requires permission to list nodes and pods (ClusterRole tessera-viewer). With permission to list the\n"
      "pods of one namespace only, it shows what the pod itself says.\n"
      "Examples:\n"
      "  tessera why -A                             # all pods that wait, with the main reason\n"
      "  tessera why train-7 -n ml\n"
      "  tessera why job/train -n ml\n"
      "  tessera why ml/train-7 -o json\n"
      "  tessera why ml/train-7 --watch             # until Ctrl-C\n"
      "  tessera why train-7 -n ml --file ./saved   # nodes.json and pods.json, saved with kubectl");
  command->callback([&action, options] {
    action = [options] { return run_why(*options, std::cout, std::cerr, Terminal::of(STDOUT_FILENO)); };
  });
}

}  // namespace tessera::cli
