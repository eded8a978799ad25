#include "cli/machine/topo.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <ostream>
#include <sstream>

#include "base/file.h"
#include "base/json_reader.h"
#include "base/strings.h"
#include "cli/cluster/nodes_text.h"
#include "cli/output/json_print.h"
#include "cli/output/messages.h"
#include "cli/output/yaml_print.h"
#include "sim/machine.h"
#include "topology/bandwidth.h"
#include "topology/static_sets.h"
#include "topology/topo_text.h"
#include "topology/topology_json.h"

namespace tessera::cli {

namespace json = boost::json;
using topology::GpuMask;

namespace {

constexpr std::size_t kMaxFileBytes = 1U << 20U;

// Reads topology JSON, or a document with the field "topology": an inventory, or the output of
// `-o json`.
Result<topology::Topology> read_json_topology(const std::string& text) {
  const json::value document = TRY(parse_json(text));
  const JsonReader root(document, "");
  if (root.has("topology")) {
    return topology::topology_from_json(TRY(root.object("topology")));
  }
  return topology::topology_from_json(JsonReader(document, "topology"));
}

Result<TopoView> read_input(const std::string& path) {
  const std::string text = TRY(read_file(path, kMaxFileBytes));
  TopoView view;
  view.title = path == "-" ? "standard input" : path;
  if (trim(text).starts_with('{')) {
    view.topology = TRY(with_context(read_json_topology(text), view.title));
    return view;
  }
  topology::TopoText parsed = TRY(with_context(topology::parse_topo_text(text), view.title));
  view.topology = std::move(parsed.topology);
  view.notes = std::move(parsed.notes);
  return view;
}

Result<TopoView> describe_machine(const std::string& name) {
  sim::Machine machine = TRY(sim::load_machine(name));
  TopoView view;
  view.title = fmt::format("{}: {}", machine.name, machine.about);
  view.machine_type = machine.name;
  view.topology = std::move(machine.topology);
  return view;
}

// Returns the policy of the command line, or else the policy that a pod on this node would get.
Result<std::string> policy_of(const TopoOptions& options, const TopoView& view) {
  if (!options.policy.empty()) {
    return options.policy;
  }
  if (view.policy == "static") {
    return fail(ErrorCode::kInvalid,
                "the cluster's policy for whole GPUs is static, and only the extender has its table; "
                "pass it with --policy static --static-table FILE, or choose another --policy");
  }
  return view.policy.empty() ? "ring" : view.policy;
}

Result<topology::SetChoice> choose(const TopoOptions& options, const std::string& policy,
                                   const TopoView& view, const topology::SetTables& tables,
                                   const topology::SetQuery& query) {
  if (policy == "static") {
    const std::string text = TRY(read_file(options.static_table, kMaxFileBytes));
    const json::value document = TRY(with_context(parse_json(text), options.static_table));
    const auto sets = TRY(topology::StaticSets::from_json(JsonReader(document, options.static_table)));
    return sets.choose(tables, sets.listed(view.machine_type, view.instance_type), query);
  }
  const auto choose_by = policy == "ring"          ? topology::choose_ring
                         : policy == "best_effort" ? topology::choose_best_effort
                         : policy == "prim"        ? topology::choose_prim
                                                   : topology::choose_simple;
  const auto choice = choose_by(tables, query);
  if (!choice) {
    return fail(ErrorCode::kExhausted,
                fmt::format("{} GPU{} requested, but only {} of {} are free", query.count,
                            query.count == 1 ? "" : "s", topology::gpu_count(query.free), tables.size()));
  }
  return *choice;
}

// Adds what the options say about the GPUs: which are taken, and how many to choose.
Result<TopoView> with_choice(const TopoOptions& options, TopoView view) {
  view.taken |= TRY(with_context(topology::parse_gpu_list(options.taken), "--taken"));
  if ((view.taken & ~view.topology.all()) != 0) {
    return fail(ErrorCode::kInvalid,
                fmt::format("--taken: GPU {} does not exist; the machine has GPU 0 to {}",
                            topology::gpu_list(view.taken & ~view.topology.all()),
                            static_cast<int>(view.topology.size()) - 1));
  }
  if (options.count > 0) {
    const topology::SetTables tables(view.topology);
    const topology::SetQuery query{.free = view.topology.all() & ~view.taken, .count = options.count};
    const std::string policy = TRY(policy_of(options, view));
    const topology::SetChoice set = TRY(choose(options, policy, view, tables, query));
    view.choice = TopoView::Choice{.policy = policy,
                                   .set = set,
                                   .pair_sum = tables.pair_sum(set.gpus),
                                   .ring = tables.ring_order(set.gpus)};
  }
  return view;
}

json::array gpu_array(GpuMask gpus) {
  json::array array;
  for (const unsigned gpu : topology::GpuIndices(gpus)) {
    array.emplace_back(std::int64_t{gpu});
  }
  return array;
}

json::object use_json(const GpuUse& use) {
  return {{"model", use.model},
          {"state", !use.unhealthy.empty()                ? "unhealthy"
                    : use.state == GpuUse::State::kFree   ? "free"
                    : use.state == GpuUse::State::kShared ? "shared"
                                                          : "whole"},
          {"unhealthy", use.unhealthy},
          {"heldUnits", use.held},
          {"totalUnits", use.total},
          {"pods", json::array(use.pods.begin(), use.pods.end())}};
}

json::object choice_json(const TopoView::Choice& choice) {
  json::object object;
  object["policy"] = choice.policy;
  object["count"] = std::int64_t{topology::gpu_count(choice.set.gpus)};
  object["gpus"] = gpu_array(choice.set.gpus);
  json::array ring;
  for (const unsigned gpu : choice.ring) {
    ring.emplace_back(std::int64_t{gpu});
  }
  object["ring"] = std::move(ring);
  object["ring_mbps"] = std::int64_t{choice.set.ring_mbps};
  object["best_possible_mbps"] = std::int64_t{choice.set.ideal_mbps};
  object["pair_score"] = std::int64_t{choice.pair_sum};
  object["exact"] = choice.set.exact;
  return object;
}

json::object topo_object(const TopoView& view) {
  json::object object;
  object["topology"] = to_json(view.topology);
  json::array matrix;
  for (unsigned a = 0; a < view.topology.size(); ++a) {
    json::array row;
    for (unsigned b = 0; b < view.topology.size(); ++b) {
      row.emplace_back(std::int64_t{a == b ? 0 : topology::pair_mbps(view.topology, a, b)});
    }
    matrix.push_back(std::move(row));
  }
  object["mbps"] = std::move(matrix);
  object["taken"] = gpu_array(view.taken);
  if (!view.uses.empty()) {
    json::array texts;
    json::array gpus;
    for (const GpuUse& use : view.uses) {
      texts.emplace_back(use.text());
      gpus.push_back(use_json(use));
    }
    object["uses"] = std::move(texts);
    object["gpus"] = std::move(gpus);
  }
  if (view.choice) {
    object["choice"] = choice_json(*view.choice);
  }
  json::array notes;
  for (const std::string& note : view.notes) {
    notes.emplace_back(note);
  }
  object["notes"] = std::move(notes);
  return object;
}

}  // namespace

std::string gigabytes(topology::Mbps mbps) {
  const topology::Mbps tenths = (mbps + 50) / 100;
  return tenths % 10 == 0 ? fmt::format("{}", tenths / 10) : fmt::format("{}.{}", tenths / 10, tenths % 10);
}

Result<TopoView> make_topo_view(const TopoOptions& options) {
  if (!options.node.empty()) {
    return make_topo_view(options, TRY(read_cluster(options.cluster, {.node = options.node})));
  }
  return with_choice(
      options, TRY(options.file.empty() ? describe_machine(options.machine) : read_input(options.file)));
}

Result<TopoView> make_topo_view(const TopoOptions& options, const Cluster& cluster) {
  if (std::ranges::find(cluster.nodes, options.node,
                        [](const objects::NodeFacts& one) { return one.spec.name; }) == cluster.nodes.end()) {
    return fail(no_such_node(options.cluster, options.node));
  }
  return with_choice(options, TRY(describe_node(cluster, options.node)));
}

void print_topo_json(const TopoView& view, std::ostream& out) {
  out << compact_json(topo_object(view)) << '\n';
}

namespace {

std::string topo_text(const TopoOptions& options, const TopoView& view, const Terminal& terminal) {
  std::ostringstream text;
  if (options.output == "json") {
    print_topo_json(view, text);
  } else if (options.output == "yaml") {
    text << yaml_text(topo_object(view));
  } else if (options.output == "svg") {
    print_topo_svg(view, text);
  } else {
    print_topo_text(view, text, terminal.for_output(options.output));
  }
  return text.str();
}

}  // namespace

int run_topo(const TopoOptions& options, std::ostream& out, std::ostream& err, const Terminal& terminal) {
  if (!options.node.empty()) {
    return show_cluster(
        options.cluster, {.node = options.node}, options.watch,
        [&](const Cluster& cluster, const Terminal& now) -> Result<Frame> {
          return Frame{.text = topo_text(options, TRY(make_topo_view(options, cluster)), now),
                       .warnings = {}};
        },
        out, err, terminal);
  }
  const auto view = make_topo_view(options);
  if (!view) {
    return report_error(view.error(), err);
  }
  out << topo_text(options, *view, terminal) << std::flush;
  return 0;
}

}  // namespace tessera::cli
