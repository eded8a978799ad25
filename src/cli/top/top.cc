#include "cli/top/top.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>
#include <ostream>
#include <utility>

#include "alloc/inventory.h"
#include "alloc/record.h"
#include "base/strings.h"
#include "cli/cluster/cluster_ledger.h"
#include "cli/cluster/cluster_watch.h"
#include "cli/cluster/label_selector.h"
#include "cli/cluster/node_problem.h"
#include "cli/cluster/nodes_text.h"
#include "cli/cluster/pod_problems.h"
#include "cli/output/json_print.h"
#include "cli/output/yaml_print.h"

namespace tessera::cli {

namespace json = boost::json;

namespace {

constexpr std::string_view kRolePrefix = "node-role.kubernetes.io/";

std::string role_of(const objects::NodeFacts& node) {
  std::string roles;
  for (const auto& [key, value] : node.labels) {
    if (key.starts_with(kRolePrefix) && key.size() > kRolePrefix.size()) {
      roles += (roles.empty() ? "" : ",") + key.substr(kRolePrefix.size());
    }
  }
  return roles.empty() ? "<none>" : roles;
}

std::string status_of(const objects::NodeFacts& node) {
  return std::string(node.ready ? "ready" : "notReady") + (node.cordoned ? ",SchedulingDisabled" : "");
}

TopPod pod_of(const alloc::Ledger& ledger, const alloc::PodHolding& holding, const std::string& node,
              const Usage& usage) {
  const std::span<const alloc::LedgerGpu> gpus = ledger.gpus(holding.node);
  TopPod pod{.namespace_name = holding.pod.namespace_name,
             .name = holding.pod.name,
             .node = node,
             .units = holding.units,
             .whole = holding.whole,
             .units_on = {},
             .decided = !holding.shares.empty()};
  for (const alloc::HeldShare& held : holding.shares) {
    if (held.slot >= 0) {
      pod.units_on[gpus[static_cast<std::size_t>(held.slot)].index] +=
          held.share.whole ? 0 : held.share.units;
    }
  }
  if (const auto used = usage.pod_memory_mib.find(holding.pod.text()); used != usage.pod_memory_mib.end()) {
    pod.used_mib = used->second;
  }
  for (const PodProblem& problem : pod_problems(ledger, holding, usage)) {
    pod.problems.push_back(problem.text);
  }
  return pod;
}

// Returns a pod as far as the pod itself says: for a user who may not list nodes.
TopPod pod_alone(const alloc::PodSpec& spec, const alloc::ResourceNames& names) {
  TopPod pod{
      .namespace_name = spec.namespace_name, .name = spec.name, .node = spec.node_name, .units_on = {}};
  const auto request = alloc::GpuRequest::of_pod(spec, names);
  if (!request) {
    return pod;
  }
  pod.units = request->units;
  pod.whole = request->whole;
  const std::string* text = alloc::find_text(spec.annotations, alloc::key::kAllocation);
  const auto record = alloc::Record::parse(text == nullptr ? "" : *text);
  if (const auto held = record ? alloc::held_shares(*request, *record)
                               : Result<std::vector<alloc::GpuShare>>(fail(record.error()))) {
    pod.decided = true;
    for (const alloc::GpuShare& share : *held) {
      pod.units_on_uuid[share.gpu] += share.whole ? 0 : share.units;
    }
  }
  return pod;
}

void add_gpus(TopNode& node, const alloc::Ledger& ledger, alloc::NodeId id, const Usage& usage) {
  const alloc::NodeView view = ledger.view(id);
  for (unsigned slot = 0; slot < view.size(); ++slot) {
    const alloc::LedgerGpu& facts = ledger.gpus(id)[slot];
    const alloc::GpuLoad load = ledger.states().gpu_load(id, slot);
    TopGpu gpu{
        .index = facts.index,
        .uuid = facts.uuid.text(),
        .model = ledger.model_name(facts.model),
        .unhealthy = std::string(ledger.unhealthy(id, slot)),
        .total = view.total[slot],
        .allocated = load.whole > 0 ? std::max<std::uint64_t>(view.total[slot], load.units) : load.units,
        .whole = load.whole > 0,
        .core_percent = load.core_percent};
    if (const auto used = usage.gpus.find(gpu.uuid); used != usage.gpus.end()) {
      gpu.usage = used->second;
    }
    node.gpus.push_back(std::move(gpu));
  }
}

// Returns the node in its own unit. If it differs from the cluster's unit, the node gets a ledger
// of its own.
TopNode node_of(const objects::NodeFacts& facts, const Cluster& cluster, alloc::Unit unit,
                const alloc::Ledger& common, const Usage& usage) {
  TopNode node;
  node.name = facts.spec.name;
  node.address = facts.address.empty() ? "unknown" : facts.address;
  node.role = role_of(facts);
  node.status = status_of(facts);
  const NodeProblem problem = node_problem(cluster, facts);
  if (problem) {
    node.status += "," + problem.mark;
    node.problem = problem.text;
  }
  node.shares = facts.allocatable_units > 0 || problem;
  std::unique_ptr<alloc::Ledger> own;
  if (const auto inventory = facts.spec.inventory.empty() ? Result<alloc::Inventory>(alloc::Inventory{})
                                                          : alloc::Inventory::parse(facts.spec.inventory);
      inventory && !inventory->gpus.empty()) {
    node.topology = inventory->topology;
    if (inventory->unit != unit) {
      Cluster alone;
      alone.names = cluster.names;
      alone.nodes = {facts};
      std::ranges::copy_if(cluster.pods, std::back_inserter(alone.pods),
                           [&](const alloc::PodSpec& pod) { return pod.node_name == node.name; });
      own = make_ledger(alone, inventory->unit);
      unit = inventory->unit;
    }
  }
  node.unit = unit.text();
  node.unit_mib = unit.in_mib();
  const alloc::Ledger& ledger = own ? *own : common;
  const alloc::NodeId id = *ledger.find_node(node.name);
  add_gpus(node, ledger, id, usage);
  for (const alloc::PodHolding& holding : ledger.holdings(id)) {
    node.pods.push_back(pod_of(ledger, holding, node.name, usage));
  }
  return node;
}

bool is_of_mode(const TopNode& node, const std::string& mode) {
  if (mode == "none") {
    return node.gpus.empty();
  }
  if (node.gpus.empty() || mode.empty()) {
    return !node.gpus.empty();
  }
  const bool linked = node.topology.size() > 1;
  return mode == "share" ? node.shares : mode == "topology" ? linked : !node.shares || linked;
}

std::uint64_t requested(const TopPod& pod, bool whole) {
  return whole ? pod.whole : pod.units;
}

void sort_nodes(std::vector<TopNode>& nodes, const std::string& by) {
  std::ranges::stable_sort(nodes, [&](const TopNode& a, const TopNode& b) {
    if (by == "allocated") {
      return a.allocated_gpus() > b.allocated_gpus();
    }
    if (by == "free") {
      return static_cast<double>(a.gpus.size()) - a.allocated_gpus() >
             static_cast<double>(b.gpus.size()) - b.allocated_gpus();
    }
    return by == "unhealthy" && a.unhealthy() > b.unhealthy();
  });
}

void sort_pods(std::vector<TopPod>& pods, const std::string& by) {
  std::ranges::sort(pods, {}, [](const TopPod& pod) { return std::tie(pod.namespace_name, pod.name); });
  if (by != "name") {
    std::ranges::stable_sort(pods, [&](const TopPod& a, const TopPod& b) {
      if (by == "used") {
        return a.used_mib.value_or(-1) > b.used_mib.value_or(-1);
      }
      return requested(a, by == "gpus") > requested(b, by == "gpus");
    });
  }
}

Status keep_named_nodes(const TopOptions& options, Cluster& cluster) {
  for (const std::string& name : options.names) {
    if (std::ranges::none_of(cluster.nodes,
                             [&](const objects::NodeFacts& node) { return node.spec.name == name; })) {
      return fail(no_such_node(options.cluster, name));
    }
  }
  std::erase_if(cluster.nodes, [&](const objects::NodeFacts& node) {
    return !options.names.empty() && std::ranges::find(options.names, node.spec.name) == options.names.end();
  });
  return {};
}

// Returns the pods that the user's options select.
Result<std::vector<TopPod>> wanted_pods(const TopOptions& options, const std::string& default_namespace,
                                        std::vector<TopPod> pods) {
  const std::string& option = options.cluster.namespace_name;
  const std::string& space = option.empty() ? default_namespace : option;
  if (!options.cluster.all_namespaces) {
    std::erase_if(pods, [&](const TopPod& pod) { return pod.namespace_name != space; });
  }
  for (const std::string& name : options.names) {
    if (std::ranges::find(pods, name, &TopPod::name) == pods.end()) {
      return fail(ErrorCode::kNotFound,
                  options.cluster.all_namespaces
                      ? fmt::format("no pod {} requests GPUs", in_quotes(name))
                      : fmt::format("no pod {} in namespace {} requests GPUs; use -A for all namespaces",
                                    in_quotes(name), space));
    }
  }
  std::erase_if(pods, [&](const TopPod& pod) {
    return !options.names.empty() && std::ranges::find(options.names, pod.name) == options.names.end();
  });
  return pods;
}

json::object pod_json(const TopPod& pod) {
  json::object gpus;
  for (const auto& [index, units] : pod.units_on) {
    gpus[std::to_string(index)] = units;
  }
  for (const auto& [uuid, units] : pod.units_on_uuid) {
    gpus[uuid] = units;
  }
  json::object object{{"namespace", pod.namespace_name}, {"name", pod.name},       {"node", pod.node},
                      {"requestedUnits", pod.units},     {"wholeGpus", pod.whole}, {"decided", pod.decided},
                      {"unitsByGpu", std::move(gpus)}};
  if (pod.used_mib) {
    object["usedMiB"] = *pod.used_mib;
  }
  if (!pod.problems.empty()) {
    object["problems"] = json::array(pod.problems.begin(), pod.problems.end());
  }
  return object;
}

json::object node_json(const TopNode& node) {
  json::array gpus;
  for (const TopGpu& gpu : node.gpus) {
    json::object object{{"index", gpu.index},
                        {"uuid", gpu.uuid},
                        {"model", gpu.model},
                        {"totalUnits", gpu.total},
                        {"whole", gpu.whole},
                        {"allocatedUnits", gpu.allocated},
                        {"corePercent", gpu.core_percent}};
    if (!gpu.unhealthy.empty()) {
      object["unhealthy"] = gpu.unhealthy;
    }
    if (gpu.usage) {
      object["usedMiB"] = gpu.usage->memory_mib;
      object["dutyPercent"] = gpu.usage->duty_percent;
    }
    gpus.push_back(std::move(object));
  }
  json::array pods;
  for (const TopPod& pod : node.pods) {
    pods.push_back(pod_json(pod));
  }
  json::object object{{"name", node.name},       {"address", node.address},
                      {"role", node.role},       {"status", node.status},
                      {"unit", node.unit},       {"allocatedGpus", node.allocated_gpus()},
                      {"gpus", std::move(gpus)}, {"pods", std::move(pods)}};
  if (!node.problem.empty()) {
    object["problem"] = node.problem;
  }
  return object;
}

}  // namespace

double TopNode::allocated_gpus() const {
  double sum = 0;
  for (const TopGpu& gpu : gpus) {
    if (gpu.whole) {
      sum += 1;
    } else if (gpu.total > 0) {
      sum += static_cast<double>(gpu.allocated) / static_cast<double>(gpu.total);
    }
  }
  return sum;
}

std::uint64_t TopNode::allocated() const {
  std::uint64_t sum = 0;
  for (const TopGpu& gpu : gpus) {
    sum += gpu.allocated;
  }
  return sum;
}

std::uint64_t TopNode::total() const {
  std::uint64_t sum = 0;
  for (const TopGpu& gpu : gpus) {
    sum += gpu.total;
  }
  return sum;
}

std::size_t TopNode::unhealthy() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(gpus, [](const TopGpu& gpu) { return !gpu.unhealthy.empty(); }));
}

std::vector<std::string> top_sort_keys(bool pods) {
  return pods ? std::vector<std::string>{"name", "memory", "gpus", "used"}
              : std::vector<std::string>{"name", "allocated", "free", "unhealthy"};
}

Result<TopView> make_top(const TopOptions& options, Cluster cluster, const Usage& usage) {
  const LabelSelector selector = TRY(LabelSelector::parse(options.selector));
  if (!options.pods) {
    TRY(keep_named_nodes(options, cluster));
  }
  std::erase_if(cluster.nodes,
                [&](const objects::NodeFacts& node) { return !selector.matches(node.labels); });
  const alloc::Unit unit = common_unit(cluster);
  const std::unique_ptr<alloc::Ledger> ledger = make_ledger(cluster, unit);
  TopView view;
  view.usage = usage.any();
  view.warnings = cluster.warnings;
  view.other_gpus = other_gpus_text(cluster);
  for (const std::string& text : usage.problems) {
    view.warnings.push_back(text);
  }
  for (const objects::NodeFacts& facts : cluster.nodes) {
    TopNode node = node_of(facts, cluster, unit, *ledger, usage);
    if (options.pods || is_of_mode(node, options.mode)) {
      if (!node.problem.empty()) {
        view.warnings.push_back(fmt::format("node {}: {}", node.name, node.problem));
      }
      view.nodes.push_back(std::move(node));
    }
  }
  if (cluster.restriction.any()) {
    view.warnings.push_back(cluster.restriction.text());
  }
  view.restricted = cluster.restriction.nodes;
  for (const alloc::PodSpec& spec : cluster.pods) {
    if (view.restricted && !spec.node_name.empty()) {
      view.waiting.push_back(pod_alone(spec, cluster.names));
    }
    if (spec.node_name.empty() && alloc::asks_for_gpus(spec)) {
      const auto request = alloc::GpuRequest::of_pod(spec, ledger->options().names);
      view.waiting.push_back({.namespace_name = spec.namespace_name,
                              .name = spec.name,
                              .node = "",
                              .units = request ? request->units : 0,
                              .whole = request ? request->whole : 0,
                              .units_on = {}});
    }
  }
  if (options.pods) {
    std::vector<TopPod> all = std::move(view.waiting);
    for (TopNode& node : view.nodes) {
      std::ranges::move(node.pods, std::back_inserter(all));
      node.pods.clear();
    }
    view.waiting = TRY(wanted_pods(options, cluster.default_namespace, std::move(all)));
    sort_pods(view.waiting, options.sort_by);
  } else {
    sort_nodes(view.nodes, options.sort_by);
  }
  return view;
}

std::string top_json(const TopOptions& options, const TopView& view) {
  json::array items;
  if (options.pods) {
    for (const TopPod& pod : view.waiting) {
      items.push_back(pod_json(pod));
    }
  } else {
    for (const TopNode& node : view.nodes) {
      items.push_back(node_json(node));
    }
  }
  json::object document{{options.pods ? "pods" : "nodes", std::move(items)},
                        {"warnings", json::array(view.warnings.begin(), view.warnings.end())}};
  return options.output == "yaml" ? yaml_text(document) : pretty_json(document);
}

}  // namespace tessera::cli
