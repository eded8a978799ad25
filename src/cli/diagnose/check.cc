#include "cli/diagnose/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <ostream>
#include <utility>

#include "cli/cluster/cluster_ledger.h"
#include "cli/diagnose/check_scheduler.h"
#include "cli/output/json_print.h"
#include "cli/output/table.h"
#include "cli/output/yaml_print.h"

namespace tessera::cli {

namespace {

std::string check_text(const CheckReport& report, const Terminal& terminal) {
  const auto serious = std::ranges::count(report.findings, true, &Finding::serious);
  const auto minor = static_cast<std::ptrdiff_t>(report.findings.size()) - serious;
  const auto counted = [](auto count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  std::string text = fmt::format("{} with {}, {} on them\n", counted(report.nodes, "node"),
                                 counted(report.gpus, "GPU"), counted(report.pods, "pod"));
  if (!report.findings.empty()) {
    Table table({"", "WHAT", "WHERE AND WHAT TO DO"}, {.wrap_last = true, .keys = {"", "WHAT"}});
    for (const Finding& finding : report.findings) {
      table.add({finding.serious ? Table::Cell("ERROR", Colour::kRed) : Table::Cell("note", Colour::kYellow),
                 finding.kind, finding.text});
    }
    text += "\n" + table.text(terminal) + "\n";
  }
  return text + (report.findings.empty() ? prose("No problems found.", terminal, Colour::kGreen)
                                         : prose(counted(serious, "error") + ", " + counted(minor, "note"),
                                                 terminal, serious > 0 ? Colour::kRed : Colour::kYellow));
}

boost::json::value check_json(const CheckReport& report) {
  boost::json::array findings;
  for (const Finding& finding : report.findings) {
    findings.push_back(boost::json::object{{"serious", finding.serious},
                                           {"kind", finding.kind},
                                           {"node", finding.node},
                                           {"pod", finding.pod},
                                           {"text", finding.text}});
  }
  return boost::json::object{{"nodes", report.nodes},
                             {"gpus", report.gpus},
                             {"pods", report.pods},
                             {"findings", std::move(findings)}};
}

// Reads the versions only if some agent answered, because each failing request may take seconds.
CheckAnswers read_answers(const ClusterOptions& options, const Cluster& cluster,
                          std::vector<PodAnswer> allocations) {
  CheckAnswers answers;
  const auto lease = lease_of(cluster);
  if (lease && options.file.empty()) {
    answers.lease = lease->first + "/" + lease->second;
    answers.lease_body = ask_lease(options, lease->first, lease->second);
  }
  answers.allocations = std::move(allocations);
  const bool reachable =
      std::ranges::any_of(answers.allocations, [](const PodAnswer& one) { return one.body.has_value(); });
  if (reachable) {
    answers.agent_versions =
        ask_pods(options, PodKind::kAgents, "version").value_or(std::vector<PodAnswer>());
    answers.placer_versions =
        ask_pods(options, PodKind::kPlacers, "version").value_or(std::vector<PodAnswer>());
    answers.usage = ask_usage(options);
  }
  return answers;
}

Result<CheckReport> checked(const CheckOptions& options, const Cluster& cluster) {
  const alloc::Unit unit = options.unit.empty()
                               ? common_unit(cluster)
                               : TRY(with_context(alloc::Unit::parse(options.unit), "--unit"));
  for (const std::string& name : options.nodes) {
    if (std::ranges::none_of(cluster.nodes,
                             [&](const objects::NodeFacts& node) { return node.spec.name == name; })) {
      return fail(ErrorCode::kNotFound, fmt::format("node {} does not exist", name));
    }
  }
  return check_cluster(
      cluster, unit,
      read_answers(options.cluster, cluster, TRY(ask_pods(options.cluster, PodKind::kAgents, "allocations"))),
      options.nodes);
}

}  // namespace

int run_check(const CheckOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal) {
  WatchOptions watch = options.watch;
  watch.always = true;  // the agents' answers change without any object
  bool wrong = false;
  const int code = show_cluster(
      options.cluster, {.details = true, .other_gpu_pods = true}, watch,
      [&](const Cluster& cluster, const Terminal& now) -> Result<Frame> {
        const CheckReport report = TRY(checked(options, cluster));
        wrong = std::ranges::any_of(report.findings, &Finding::serious);
        const bool yaml = options.output == "yaml";
        return Frame{.text = yaml                       ? yaml_text(check_json(report))
                             : options.output == "json" ? pretty_json(check_json(report))
                                                        : check_text(report, now.for_output(options.output)),
                     .warnings = {}};
      },
      out, err, terminal);
  return code == 0 && wrong ? kFoundProblems : code;
}

}  // namespace tessera::cli
