#include "cli/cluster/cluster_ledger.h"

#include <map>

#include "alloc/inventory.h"
#include "cli/cluster/node_problem.h"

namespace tessera::cli {

alloc::Unit common_unit(const Cluster& cluster) {
  std::map<std::uint32_t, std::pair<std::size_t, alloc::Unit>> counts;
  for (const objects::NodeFacts& node : cluster.nodes) {
    if (node.spec.inventory.empty()) {
      continue;
    }
    if (const auto inventory = alloc::Inventory::parse(node.spec.inventory)) {
      auto& [count, unit] = counts[inventory->unit.in_mib()];
      ++count;
      unit = inventory->unit;
    }
  }
  std::size_t most = 0;
  alloc::Unit common = alloc::Unit::gib();
  for (const auto& [mib, entry] : counts) {
    if (entry.first >= most) {
      most = entry.first;
      common = entry.second;
    }
  }
  return common;
}

std::unique_ptr<alloc::Ledger> make_ledger(const Cluster& cluster, alloc::Unit unit) {
  auto ledger = std::make_unique<alloc::Ledger>(alloc::Ledger::Options{.unit = unit, .names = cluster.names});
  for (const objects::NodeFacts& node : cluster.nodes) {
    ledger->upsert_node(node.spec);
    ledger->set_agent_down(node.spec.name, node_problem(cluster, node).hidden);
  }
  for (const alloc::PodSpec& pod : cluster.pods) {
    ledger->upsert_pod(pod);
  }
  return ledger;
}

std::string amount_text(alloc::Unit unit, std::uint64_t units) {
  constexpr std::size_t kSuffix = 3;  // "GiB" or "MiB"
  std::string text = unit.amount(units);
  return text.insert(text.size() - kSuffix, " ");
}

}  // namespace tessera::cli
