// A node of the cluster for `tessera topo`: the links come from its inventory, the free GPUs from
// the ledger.
#include <fmt/format.h>

#include <algorithm>

#include "alloc/inventory.h"
#include "base/strings.h"
#include "cli/cluster/cluster_ledger.h"
#include "cli/machine/topo.h"

namespace tessera::cli {

namespace {

// Returns "13/32 GiB". Small units give amounts in MiB.
std::string memory_text(alloc::Unit unit, std::uint64_t held, std::uint64_t total) {
  const std::uint64_t held_mib = held * unit.in_mib();
  const std::uint64_t total_mib = total * unit.in_mib();
  return held_mib % 1024 == 0 && total_mib % 1024 == 0
             ? fmt::format("{}/{} GiB", held_mib / 1024, total_mib / 1024)
             : fmt::format("{}/{} MiB", held_mib, total_mib);
}

GpuUse use_of(const alloc::Ledger& ledger, alloc::NodeId id, unsigned slot,
              const std::vector<alloc::PodHolding>& holdings) {
  GpuUse use;
  use.model = ledger.model_name(ledger.gpus(id)[slot].model);
  use.unhealthy = std::string(ledger.unhealthy(id, slot));
  use.total = ledger.view(id).total[slot];
  use.held = ledger.states().gpu_load(id, slot).units;
  for (const alloc::PodHolding& holding : holdings) {
    for (const alloc::HeldShare& held : holding.shares) {
      if (held.slot == static_cast<int>(slot)) {
        use.pods.push_back(holding.pod.text());
        use.state = held.share.whole || use.state == GpuUse::State::kWhole ? GpuUse::State::kWhole
                                                                           : GpuUse::State::kShared;
      }
    }
  }
  use.held = use.state == GpuUse::State::kWhole ? use.total : use.held;
  use.memory = memory_text(ledger.options().unit, use.held, use.total);
  return use;
}

// Returns what is unusual about the pods on the node: those whose GPU is unknown or gone.
std::vector<std::string> pod_notes(const std::vector<alloc::PodHolding>& holdings) {
  std::vector<std::string> notes;
  for (const alloc::PodHolding& holding : holdings) {
    if (holding.shares.empty()) {
      notes.push_back(fmt::format("pod {} is on this node, but its GPU is unknown", holding.pod.text()));
    }
    for (const alloc::HeldShare& held : holding.shares) {
      if (held.slot == alloc::HeldShare::kNotOnNode) {
        notes.push_back(fmt::format("pod {} holds GPU {}, which this node does not have", holding.pod.text(),
                                    in_quotes(held.share.gpu)));
      }
    }
  }
  return notes;
}

}  // namespace

std::string GpuUse::text() const {
  std::string text;
  if (!unhealthy.empty()) {
    text = fmt::format("unhealthy: {}{}", unhealthy, pods.empty() ? "" : "; ");
  }
  return pods.empty() ? text
                      : fmt::format("{}{}: {}", text, state == State::kWhole ? "whole" : memory,
                                    fmt::join(pods, ", "));
}

Result<TopoView> describe_node(const Cluster& cluster, const std::string& node) {
  const auto facts =
      std::ranges::find(cluster.nodes, node, [](const objects::NodeFacts& one) { return one.spec.name; });
  if (facts == cluster.nodes.end()) {
    return fail(ErrorCode::kNotFound, fmt::format("node {} does not exist", in_quotes(node)));
  }
  if (facts->spec.inventory.empty() && !facts->spec.original.has_links()) {
    return fail(ErrorCode::kNotFound,
                fmt::format("node {} has neither an inventory, because tessera-agent has not run there, nor "
                            "the links that the original topology plugin publishes",
                            node));
  }
  const bool has_inventory = !facts->spec.inventory.empty();
  const alloc::Inventory inventory =
      TRY(with_context(alloc::Inventory::of_node(facts->spec, common_unit(cluster)),
                       fmt::format("node {}: its {}", node, has_inventory ? "inventory" : "links")));
  // Use the node's own unit, even if other nodes use another one.
  const std::unique_ptr<alloc::Ledger> ledger = make_ledger(cluster, inventory.unit);
  const auto id = ledger->find_node(node);
  TopoView view;
  view.title = fmt::format("{}: {}{}{}", node, inventory.machine, inventory.machine.empty() ? "" : ", ",
                           has_inventory ? "driver " + inventory.driver : "original topology plugin");
  view.machine_type = inventory.machine;
  view.instance_type = facts->spec.machine;
  if (cluster.settings.whole_policy) {
    view.policy = to_string(*cluster.settings.whole_policy);
  }
  view.topology = inventory.topology;
  view.taken = view.topology.all() & ~ledger->view(*id).whole_free;
  const std::vector<alloc::PodHolding> holdings = ledger->holdings(*id);
  for (unsigned slot = 0; slot < view.topology.size(); ++slot) {
    view.uses.push_back(use_of(*ledger, *id, slot, holdings));
    if (inventory.gpus[slot].index != slot) {
      view.notes.push_back(
          fmt::format("GPU{} in this output is GPU {} of the driver", slot, inventory.gpus[slot].index));
    }
  }
  for (std::string& note : pod_notes(holdings)) {
    view.notes.push_back(std::move(note));
  }
  for (const std::string& warning : cluster.warnings) {
    view.notes.push_back(warning);
  }
  return view;
}

}  // namespace tessera::cli
