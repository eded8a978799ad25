#include "cli/inspect/gpu_nodes.h"

#include <fmt/core.h>

#include <algorithm>

#include "alloc/placer.h"
#include "alloc/request.h"
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

// A healthy GPU of a node with a problem is not free: no pod can get it.
GpuNode make_node(const objects::NodeFacts& facts, const alloc::Ledger& ledger, alloc::NodeId id,
                  const NodeProblem& problem) {
  GpuNode node{.name = facts.spec.name,
               .address = facts.address.empty() ? "unknown" : facts.address,
               .type = facts.spec.original.type.empty() ? ledger.machine(id) : facts.spec.original.type,
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
  if (!facts.spec.inventory.empty() || facts.spec.original.has_links()) {
    node.links = links_of(ledger.view(id));
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
  // Another plugin may serve the whole-GPU resource. Tessera places no pods there, but shows the GPUs.
  for (const objects::NodeFacts& node : cluster.nodes) {
    if (node.spec.inventory.empty() && node.spec.whole_gpus > node.spec.original_gpus()) {
      alloc::NodeSpec spec = node.spec;
      spec.gpu_count = node.spec.whole_gpus;
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
