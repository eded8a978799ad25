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

using topology::gpu_bit;

// Returns "whole: ml/train", "8/32 GiB: ml/infer, web/split" or "unhealthy: XID 79". Returns "" for
// a free GPU.
std::string use_of(const alloc::Ledger& ledger, alloc::NodeId id, unsigned slot,
                   const std::vector<alloc::PodHolding>& holdings) {
  const alloc::NodeView view = ledger.view(id);
  std::vector<std::string> pods;
  bool whole = false;
  for (const alloc::PodHolding& holding : holdings) {
    for (const alloc::HeldShare& held : holding.shares) {
      if (held.slot == static_cast<int>(slot)) {
        pods.push_back(holding.pod.text());
        whole = whole || held.share.whole;
      }
    }
  }
  std::string text;
  if (const std::string_view reason = ledger.unhealthy(id, slot); !reason.empty()) {
    text = fmt::format("unhealthy: {}{}", reason, pods.empty() ? "" : "; ");
  }
  if (pods.empty()) {
    return text;
  }
  const std::string held = whole ? "whole"
                                 : fmt::format("{}/{}", ledger.states().gpu_load(id, slot).units,
                                               amount_text(ledger.options().unit, view.total[slot]));
  return fmt::format("{}{}: {}", text, held, fmt::join(pods, ", "));
}

}  // namespace

Result<TopoView> describe_node(const ClusterOptions& options, const std::string& node) {
  const Cluster cluster = TRY(read_cluster(options, {.node = node}));
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
  for (const alloc::PodHolding& holding : holdings) {
    if (holding.shares.empty()) {
      view.notes.push_back(fmt::format("pod {} is on this node, but its GPU is unknown", holding.pod.text()));
    }
  }
  for (const std::string& warning : cluster.warnings) {
    view.notes.push_back(warning);
  }
  return view;
}

}  // namespace tessera::cli
