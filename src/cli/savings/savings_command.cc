// Registers the options of `tessera savings` with CLI11 and runs it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/command/checked_by.h"
#include "cli/savings/savings.h"

namespace tessera::cli {

namespace {

void add_measurement_options(CLI::App& command, SavingsOptions& options) {
  CLI::Option* usage = command.add_option(
      "--usage", options.usage,
      "CSV file with measurements: namespace,pod,memory_mib[,gpu][,utilization_percent]; one row per sample");
  CLI::Option* url =
      command.add_option("--prometheus", options.prometheus.url,
                         "URL of a Prometheus server with metrics of the DCGM exporter or Tessera");
  url->excludes(usage);
  command.add_option("--prometheus-token-file", options.prometheus.token_file, "File with a bearer token")
      ->needs(url);
  command
      .add_option("--prometheus-ca", options.prometheus.ca_file,
                  "File with the authorities of its certificate (default: the system's)")
      ->needs(url);
  command.add_flag("--prometheus-insecure", options.prometheus.insecure, "Accept any certificate")
      ->needs(url);
  command
      .add_option("--prometheus-selector", options.prometheus.selector,
                  "Label matchers for all queries, for example 'cluster=\"prod\"'")
      ->needs(url);
  command
      .add_option("--metrics", options.prometheus.metrics, "Which metrics to ask for: auto, dcgm or tessera")
      ->check(CLI::IsMember({"auto", "dcgm", "tessera"}))
      ->needs(url)
      ->capture_default_str();
  command.add_option("--window", options.prometheus.window, "How far back Prometheus looks")
      ->check(checked_by(parse_window))
      ->capture_default_str();
  command.add_option("--memory", options.memory, "Which memory counts: peak, mean, or a percentile like p99")
      ->check(checked_by(Statistic::parse))
      ->capture_default_str();
  command
      .add_option("--utilization", options.utilization,
                  "Which utilization counts: mean, peak, or a percentile like p95")
      ->check(checked_by(Statistic::parse))
      ->capture_default_str();
}

void add_rule_options(CLI::App& command, SavingsOptions& options) {
  command.add_option("--headroom", options.headroom, "Percent to add to the measured memory")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command.add_option("--reserve", options.reserve, "Memory to add for each pod")
      ->check(checked_by(parse_mib))
      ->capture_default_str();
  command.add_option("--max-utilization", options.max_utilization, "A pod with more percent stays whole")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command
      .add_option("--gpu-utilization", options.gpu_utilization,
                  "Largest sum of percent of the pods on a shared GPU")
      ->check(CLI::Range(1.0, 100.0))
      ->capture_default_str();
  command.add_flag("--ignore-utilization", options.ignore_utilization,
                   "Let pods share however busy they are");
  command.add_option("--idle", options.idle, "A held GPU with less percent is idle")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command
      .add_option("--min-age", options.min_age, "With --prometheus: a younger pod stays whole; 0: any age")
      ->check(checked_by(parse_duration_s))
      ->capture_default_str();
  command
      .add_option("--namespace,-n", options.namespaces,
                  "Only pods of this namespace may share (may be repeated)")
      ->allow_extra_args(false);
  command
      .add_option("--exclude-namespace", options.excluded_namespaces,
                  "Pods of this namespace stay whole (may be repeated)")
      ->allow_extra_args(false);
  command.add_option("--selector,-l", options.selector, "Only pods with these labels may share")
      ->check(checked_by(LabelSelector::parse));
  command.add_option("--policy,-p", options.policies, "Policies to compare; the answer is that of the first")
      ->check(checked_by(parse_share_policies))
      ->capture_default_str();
}

void add_hardware_options(CLI::App& command, SavingsOptions& options) {
  command
      .add_option("--gpu-resources", options.gpu_resources,
                  "Resource names of whole GPUs, next to Tessera's own")
      ->capture_default_str();
  command
      .add_option("--unshared-resources", options.unshared_resources,
                  "Resource names of GPUs that are counted but not shared")
      ->capture_default_str();
  command
      .add_option("--gpu-memory", options.gpu_memory,
                  "Memory of one GPU, instead of the nodes' labels: 24GiB or T4=15GiB,A10=23028MiB")
      ->check(checked_by(parse_gpu_memory));
  command.add_option(
      "--pool-label", options.pool_label,
      "Node label that names the pool (default: labels of clouds; without one, the GPU model)");
  command.add_option("--price", options.price, "Price of one GPU for one hour: 2.5 or A100=3.1,T4=0.4")
      ->check(checked_by(parse_prices));
  command.add_option("--currency", options.currency, "Currency of the price")->capture_default_str();
}

}  // namespace

int run_savings(const SavingsOptions& options, std::ostream& out, std::ostream& err,
                const Terminal& terminal) {
  const auto view = make_savings(options);
  if (!view) {
    err << "tessera: " << view.error().text() << "\n";
    return 1;
  }
  out << (options.output == "json" || options.output == "yaml" ? savings_json(*view, options.output == "yaml")
          : options.output == "svg"                            ? savings_svg(*view)
          : options.output == "md"                             ? savings_markdown(*view)
                                                               : savings_text(*view, terminal))
      << std::flush;
  for (const std::string& warning : view->report.warnings) {
    err << "warning: " << warning << "\n";
  }
  return 0;
}

void add_savings_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<SavingsOptions>();
  CLI::App* command = app.add_subcommand("savings", "How many GPUs would the pods need if they shared them?");
  add_measurement_options(*command, *options);
  add_rule_options(*command, *options);
  add_hardware_options(*command, *options);
  command
      ->add_option(
          "--unit,-u", options->unit,
          "Shares are multiples of this: GiB, MiB or an amount like 256MiB (default: GiB, or the unit of "
          "most agents)")
      ->check(checked_by(alloc::Unit::parse));
  command->add_option("--output,-o", options->output, "text, json, yaml, svg (a picture) or md (a report)")
      ->check(CLI::IsMember({"text", "json", "yaml", "svg", "md"}))
      ->capture_default_str();
  command->add_flag("-d,--details", options->details, "List all pods and GPUs");
  add_cluster_options(*command, options->cluster);
  command->footer(
      "Reads nodes and pods, and changes nothing. A pod without measurements stays whole.\n"
      "Examples:\n"
      "  kubectl port-forward -n monitoring svc/prometheus 9090 &\n"
      "  tessera savings --prometheus http://127.0.0.1:9090\n"
      "  tessera savings --prometheus http://127.0.0.1:9090 --price A100=3.1,T4=0.4 -o md > report.md\n"
      "  tessera savings --usage usage.csv --policy binpack,fgd,spread\n"
      "  tessera savings --file ./saved --usage usage.csv -o svg > savings.svg");
  command->callback([&action, options] {
    action = [options] { return run_savings(*options, std::cout, std::cerr, Terminal::of(STDOUT_FILENO)); };
  });
}

}  // namespace tessera::cli
