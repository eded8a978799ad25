// A node of the cluster for `tessera topo`: its inventory says how its GPUs are connected, the books what is
// free.
#include <fmt/format.h>

#include <algorithm>

#include "alloc/inventory.h"
#include "base/strings.h"
#include "cli/cluster/cluster_books.h"
#include "cli/machine/topo.h"

namespace tessera::cli {

namespace {

using topology::gpu_bit;

// "whole: ml/train", "8/32 GiB: ml/infer, web/split", "unhealthy: XID 79"; empty for a GPU that is free.
std::string use_of(const alloc::Ledger& books, alloc::NodeId id, unsigned slot,
                   const std::vector<alloc::PodHolding>& holdings) {
  const alloc::NodeView view = books.view(id);
  std::vector<std::string> pods;
  bool whole = false;
  for (const alloc::PodHolding& holding : holdings) {
    for (const alloc::PodHolding::Part& part : holding.parts) {
      if (part.slot == static_cast<int>(slot)) {
        pods.push_back(holding.pod.text());
        whole = whole || part.whole;
      }
    }
  }
  std::string text;
  if (const std::string_view ill = books.unhealthy(id, slot); !ill.empty()) {
    text = fmt::format("unhealthy: {}{}", ill, pods.empty() ? "" : "; ");
  }
  if (pods.empty()) {
    return text;
  }
  const std::string held = whole ? "whole"
                                 : fmt::format("{}/{}", books.states().gpu_load(id, slot).units,
                                               books.options().unit.amount(view.total[slot]));
  return fmt::format("{}{}: {}", text, held, fmt::join(pods, ", "));
}

}  // namespace

Result<TopoView> describe_node(const ClusterOptions& options, const std::string& node) {
  const Cluster cluster = TRY(read_cluster(options, {.node = node}));
  const auto facts =
      std::ranges::find(cluster.nodes, node, [](const objects::NodeFacts& one) { return one.spec.name; });
  if (facts == cluster.nodes.end()) {
    return fail(ErrorCode::kNotFound, fmt::format("there is no node {}", in_quotes(node)));
  }
  if (facts->spec.inventory.empty()) {
    return fail(
        ErrorCode::kNotFound,
        fmt::format("node {} has no inventory: no agent of Tessera has run there; \"kubectl inspect gpu "
                    "-d {}\" shows what an old plugin wrote",
                    node, node));
  }
  const alloc::Inventory inventory =
      TRY(with_context(alloc::Inventory::parse(facts->spec.inventory), "node " + node + ": its inventory"));
  // In the node's own unit, whatever the others count in.
  const std::unique_ptr<alloc::Ledger> books = make_books(cluster, inventory.unit);
  const auto id = books->find_node(node);
  TopoView view;
  view.title = fmt::format("{}: {}{}driver {}", node, inventory.machine,
                           inventory.machine.empty() ? "" : ", ", inventory.driver);
  view.machine_type = inventory.machine;
  view.instance_type = facts->spec.machine;
  if (cluster.settings.whole_policy) {
    view.policy = to_string(*cluster.settings.whole_policy);
  }
  view.topology = inventory.topology;
  view.taken = view.topology.all() & ~books->view(*id).whole_free;
  const std::vector<alloc::PodHolding> holdings = books->holdings(*id);
  for (unsigned slot = 0; slot < view.topology.size(); ++slot) {
    view.uses.push_back(use_of(*books, *id, slot, holdings));
    if (inventory.gpus[slot].index != slot) {
      view.notes.push_back(
          fmt::format("GPU{} of this page is GPU {} of the driver", slot, inventory.gpus[slot].index));
    }
  }
  for (const alloc::PodHolding& holding : holdings) {
    if (holding.parts.empty()) {
      view.notes.push_back(fmt::format("pod {} is here and nobody knows on which GPU", holding.pod.text()));
    }
  }
  for (const std::string& warning : cluster.warnings) {
    view.notes.push_back(warning);
  }
  return view;
}

}  // namespace tessera::cli
