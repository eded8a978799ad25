#include "cli/inspect/inspect.h"

#include <fmt/core.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "cli/cluster/cluster_ledger.h"
#include "cli/cluster/cluster_watch.h"
#include "cli/cluster/label_selector.h"
#include "cli/cluster/nodes_text.h"
#include "cli/inspect/inspect_json.h"
#include "cli/output/json_print.h"
#include "cli/output/yaml_print.h"

namespace tessera::cli {

namespace {

// The message of the API server, which the original prints.
Error original_error(const std::string& name) {
  return {ErrorCode::kNotFound, fmt::format("nodes \"{}\" not found", name)};
}

// Returns the advice below an empty table; "" in the formats that imitate the original, and in data.
std::string advice(const InspectOptions& options, const Cluster& cluster, bool empty) {
  if (!empty || options.compatible || (options.output != "text" && options.output != "wide")) {
    return "";
  }
  const std::string text = other_gpus_text(cluster);
  return text.empty() ? "" : text + "\n";
}

Status keep_wanted_nodes(const InspectOptions& options, Cluster& cluster) {
  for (const std::string& name : options.nodes) {
    if (std::ranges::none_of(cluster.nodes,
                             [&](const objects::NodeFacts& node) { return node.spec.name == name; })) {
      return fail(options.compatible ? original_error(name) : no_such_node(options.cluster, name));
    }
  }
  const LabelSelector selector = TRY(LabelSelector::parse(options.selector));
  std::erase_if(cluster.nodes, [&](const objects::NodeFacts& node) {
    const bool named =
        options.nodes.empty() || std::ranges::find(options.nodes, node.spec.name) != options.nodes.end();
    return !named || !selector.matches(node.labels);
  });
  return {};
}

void add(std::vector<std::string>& all, std::vector<std::string> more) {
  for (std::string& text : more) {
    if (std::ranges::find(all, text) == all.end()) {
      all.push_back(std::move(text));
    }
  }
}

std::string printed(const boost::json::value& value, const std::string& output) {
  return output == "yaml" ? yaml_text(value) : pretty_json(value);
}

// Returns all problems of the ledger. The formats that imitate the original do not show them.
std::vector<std::string> all_problems(const Cluster& cluster) {
  std::vector<std::string> texts;
  for (const alloc::Problem& problem : make_ledger(cluster, common_unit(cluster))->problems()) {
    texts.push_back(problem.text);
  }
  return texts;
}

std::string shares_text(const InspectOptions& options, const Shares& shares, const Terminal& terminal,
                        const std::vector<std::string>& warnings) {
  if (options.output == "json" || options.output == "yaml") {
    return printed(shares_json(shares, warnings), options.output);
  }
  if (options.output == "wide") {
    return shares_wide(shares, terminal);
  }
  return options.details ? shares_details(shares) : shares_summary(shares);
}

std::string gpus_text(const InspectOptions& options, const GpuNodes& nodes, const Terminal& terminal,
                      const std::vector<std::string>& warnings) {
  if (options.output == "json" || options.output == "yaml") {
    return printed(gpus_json(nodes, warnings), options.output);
  }
  if (options.output == "wide") {
    return gpus_wide(nodes, terminal);
  }
  return options.details ? gpus_details(nodes) : gpus_summary(nodes);
}

}  // namespace

ClusterQuery inspect_query(const InspectOptions& options) {
  ClusterQuery query;
  query.node = options.nodes.size() == 1 ? options.nodes.front() : "";
  query.namespace_name = options.cluster.all_namespaces ? "" : options.cluster.namespace_name;
  return query;
}

Result<Frame> inspect_frame(const InspectOptions& options, Cluster cluster, const Terminal& terminal) {
  TRY(keep_wanted_nodes(options, cluster));
  Frame frame;
  add(frame.warnings, cluster.warnings);
  const bool show_problems = options.output != "text";
  if (options.kind == InspectKind::kShares) {
    Shares shares = make_shares(cluster);
    sort_shares(shares, options.sort_by);
    add(frame.warnings, shares.warnings);
    add(frame.warnings, show_problems ? all_problems(cluster) : std::vector<std::string>());
    frame.text = shares_text(options, shares, terminal, frame.warnings) +
                 advice(options, cluster, shares.nodes.empty());
  } else {
    GpuNodes nodes = make_gpu_nodes(cluster);
    sort_gpu_nodes(nodes, options.sort_by);
    add(frame.warnings, nodes.warnings);
    add(frame.warnings, show_problems ? all_problems(cluster) : std::vector<std::string>());
    frame.text =
        gpus_text(options, nodes, terminal, frame.warnings) + advice(options, cluster, nodes.nodes.empty());
  }
  return frame;
}

int run_inspect(const InspectOptions& options, std::ostream& out, std::ostream& err,
                const Terminal& terminal) {
  bool found = true;
  const int code = show_cluster(
      options.cluster, inspect_query(options), options.watch,
      [&](Cluster cluster, const Terminal& now) -> Result<Frame> {
        auto frame = inspect_frame(options, std::move(cluster), now);
        if (!frame && options.compatible && !options.watch.watch &&
            frame.error().code() == ErrorCode::kNotFound) {
          found = false;
          return Frame{.text = "Failed due to " + frame.error().message(), .warnings = {}};
        }
        return frame;
      },
      out, err, terminal);
  return found ? code : 1;
}

}  // namespace tessera::cli
