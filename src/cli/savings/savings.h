// cli/savings/savings.h
//
// `tessera savings`: computes how many GPUs the pods of a cluster would need if every pod that can
// share a GPU did so. Reads measurements, and a cluster or files saved by kubectl. Changes nothing.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/cluster/cluster.h"
#include "cli/command/command.h"
#include "cli/output/terminal.h"
#include "cli/savings/plan.h"
#include "cli/savings/prometheus.h"

namespace tessera::cli {

// The options as text, the way the user wrote them.
struct SavingsOptions {
  ClusterOptions cluster{};
  std::string usage{};  // CSV file
  PrometheusOptions prometheus{};
  std::string memory = "peak";
  std::string utilization = "mean";
  std::int64_t headroom = 20;
  std::string reserve = "512MiB";
  double max_utilization = 50;
  double gpu_utilization = 80;
  double idle = 1;
  bool ignore_utilization = false;
  std::string min_age = "24h";
  std::vector<std::string> namespaces{};
  std::vector<std::string> excluded_namespaces{};
  std::string selector{};
  std::string gpu_resources = "nvidia.com/gpu";
  std::string unshared_resources = "amd.com/gpu";
  std::string gpu_memory{};
  std::string pool_label{};
  std::string policies = "binpack";
  std::string price{};
  std::string currency = "USD";
  std::string unit{};
  std::string output = "text";  // json, yaml, svg, md
  bool details = false;
};

// Parsers of option values. Each returns kInvalid for an invalid value.
//
// Parses "A100=3.1,T4=0.4" or "2.5", or both: a number without a model is for all other models. No
// model may appear twice.
Result<ByModel> parse_prices(std::string_view text);
// Parses "24GiB" or "T4=15GiB,A10=23028MiB", in MiB.
Result<ByModel> parse_gpu_memory(std::string_view text);
// Accepts any name that is not blank.
Result<std::string> parse_currency(std::string_view text);
// Parses "binpack,fgd": policies for shares.
Result<std::vector<alloc::Policy>> parse_share_policies(std::string_view text);
// Parses "512MiB" or "1GiB", or "0".
Result<std::int64_t> parse_mib(std::string_view text);
// Parses "24h", "7d", "1d12h" or "0"; returns seconds.
Result<std::int64_t> parse_duration_s(std::string_view text);

// Returns kInvalid if a namespace is both selected and excluded.
Status check_namespaces(const SavingsOptions& options);
// Returns the rules of these options, except `unit`, which depends on the cluster.
Result<SavingsRules> savings_rules(const SavingsOptions& options);

// A report with everything that its words depend on.
struct SavingsView {
  SavingsReport report{};
  SavingsRules rules{};
  Statistic memory = Statistic::peak();
  Statistic utilization = Statistic::mean();
  std::string currency{};
  bool details = false;  // list everything
};

Result<SavingsView> make_savings(const SavingsOptions& options);

std::string savings_text(const SavingsView& view, const Terminal& terminal);
std::string savings_json(const SavingsView& view, bool yaml);
std::string savings_markdown(const SavingsView& view);
std::string savings_svg(const SavingsView& view);

// Runs the command and returns 0. On failure, returns 1 and writes the reason to `err`. Warnings are
// part of every report. They are also written to `err`, except if a terminal shows the text.
int run_savings(const SavingsOptions& options, std::ostream& out, std::ostream& err,
                const Terminal& terminal);

void add_savings_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
