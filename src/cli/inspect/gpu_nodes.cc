#include "cli/inspect/gpu_nodes.h"

#include <fmt/core.h>

#include <algorithm>

#include "alloc/placer.h"
#include "alloc/request.h"
#include "base/json_reader.h"
#include "base/strings.h"
#include "cli/cluster/cluster_ledger.h"
#include "cli/cluster/node_problem.h"
#include "topology/link.h"

namespace tessera::cli {

namespace {

using Links = std::vector<std::vector<std::string>>;

Links links_of(const alloc::NodeView& view) {
  Links links(view.size(), std::vector<std::string>(view.size(), "X"));
  for (unsigned a = 0; a < view.size(); ++a) {
    for (unsigned b = 0; b < view.size(); ++b) {
      if (a != b) {
        links[a][b] = topology::short_name(view.tables->topology().link(a, b));
      }
    }
  }
  return links;
}

// Parses the annotation of the original topology plugin: {"GPU_NV1_0_1":"Single NVLink",...}.
// Ignores invalid entries.
Links links_of_annotation(std::string_view text, std::size_t gpus) {
  const auto document = parse_json(text);
  if (!document || !document->is_object()) {
    return {};
  }
  Links links(gpus, std::vector<std::string>(gpus, "-"));
  for (const auto& entry : document->get_object()) {
    const auto parts = split(entry.key(), '_');
    const auto a = parts.size() == 4 ? parse_int(parts[2]) : std::nullopt;
    const auto b = parts.size() == 4 ? parse_int(parts[3]) : std::nullopt;
    const auto inside = [gpus](std::int64_t i) { return i >= 0 && static_cast<std::size_t>(i) < gpus; };
    if (a && b && inside(*a) && inside(*b)) {
      links[static_cast<std::size_t>(*a)][static_cast<std::size_t>(*b)] = parts[1];
      links[static_cast<std::size_t>(*b)][static_cast<std::size_t>(*a)] = parts[1];
    }
  }
  for (std::size_t i = 0; i < gpus; ++i) {
    links[i][i] = "X";
  }
  return links;
}

// A healthy GPU of a node with a problem is not free: no pod can get it.
GpuNode make_node(const objects::NodeFacts& facts, const alloc::Ledger& ledger, alloc::NodeId id,
                  const NodeProblem& problem) {
  GpuNode node{.name = facts.spec.name,
               .address = facts.address.empty() ? "unknown" : facts.address,
               .type = facts.node_type.empty() ? ledger.machine(id) : facts.node_type,
               .gpus = {},
               .links = {}};
  for (unsigned slot = 0; slot < ledger.gpus(id).size(); ++slot) {
    const alloc::LedgerGpu& gpu = ledger.gpus(id)[slot];
    node.gpus.push_back({.index = gpu.index,
                         .uuid = gpu.uuid.text(),
                         .model = ledger.model_name(gpu.model),
                         .unhealthy = std::string(ledger.unhealthy(id, slot)),
                         .pods = {}});
    if (NodeGpu& last = node.gpus.back(); last.unhealthy.empty()) {
      last.unhealthy = problem.mark;
    }
  }
  for (const alloc::PodHolding& holding : ledger.holdings(id)) {
    for (const alloc::HeldShare& held : holding.shares) {
      if (held.slot >= 0) {
        NodeGpu& gpu = node.gpus[static_cast<std::size_t>(held.slot)];
        gpu.pods.push_back(holding.pod.text());
        gpu.whole = gpu.whole || held.share.whole;
      }
    }
  }
  if (!facts.spec.inventory.empty()) {
    node.links = links_of(ledger.view(id));
  } else if (!facts.gpu_topology.empty()) {
    node.links = links_of_annotation(facts.gpu_topology, node.gpus.size());
  }
  return node;
}

}  // namespace

std::string_view to_string(GpuState use) {
  switch (use) {
    case GpuState::kFree:
      return "free";
    case GpuState::kShared:
      return "shared";
    case GpuState::kWhole:
      return "whole";
    case GpuState::kUnhealthy:
      break;
  }
  return "unhealthy";
}

GpuState NodeGpu::use() const {
  if (!unhealthy.empty()) {
    return GpuState::kUnhealthy;
  }
  return whole ? GpuState::kWhole : pods.empty() ? GpuState::kFree : GpuState::kShared;
}

std::int64_t GpuNode::used() const {
  return std::ranges::count_if(gpus, [](const NodeGpu& gpu) { return !gpu.pods.empty(); });
}

std::int64_t GpuNode::free() const {
  return std::ranges::count_if(gpus, [](const NodeGpu& gpu) { return gpu.use() == GpuState::kFree; });
}

GpuNodes make_gpu_nodes(const Cluster& cluster) {
  const auto ledger = make_ledger(cluster, common_unit(cluster));
  // The original topology plugin publishes its GPUs only as the whole-GPU resource.
  for (const objects::NodeFacts& node : cluster.nodes) {
    if (node.spec.inventory.empty() && node.whole_gpus > node.spec.gpu_count) {
      alloc::NodeSpec spec = node.spec;
      spec.gpu_count = node.whole_gpus;
      ledger->upsert_node(spec);
    }
  }
  GpuNodes all;
  all.policy =
      alloc::to_string(cluster.settings.whole_policy.value_or(alloc::Placer::Options{}.whole_policy));
  for (const objects::NodeFacts& facts : cluster.nodes) {
    const auto id = ledger->find_node(facts.spec.name);
    if (id && !ledger->gpus(*id).empty()) {
      const NodeProblem problem = node_problem(cluster, facts);
      if (problem) {
        all.warnings.push_back(fmt::format("node {}: {}", facts.spec.name, problem.text));
      }
      all.nodes.push_back(make_node(facts, *ledger, *id, problem));
    }
  }
  for (const alloc::Problem& problem : ledger->problems()) {
    if (problem.kind == alloc::ProblemKind::kUnreadableInventory ||
        problem.kind == alloc::ProblemKind::kUnreadableRecord ||
        problem.kind == alloc::ProblemKind::kLostGpu) {
      all.warnings.push_back(problem.text);
    }
  }
  return all;
}

std::vector<std::string> gpu_sort_keys() {
  return {"name", "all", "used", "free"};
}

void sort_gpu_nodes(GpuNodes& nodes, std::string_view by) {
  const auto amount = [by](const GpuNode& node) -> std::int64_t {
    if (by == "all") {
      return static_cast<std::int64_t>(node.gpus.size());
    }
    return by == "used" ? node.used() : by == "free" ? node.free() : 0;
  };
  std::ranges::stable_sort(nodes.nodes, [&](const GpuNode& a, const GpuNode& b) {
    const std::int64_t left = amount(a);
    const std::int64_t right = amount(b);
    return left != right ? left > right : a.name < b.name;
  });
}

}  // namespace tessera::cli
