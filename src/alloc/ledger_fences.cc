// Fences of the ledger: whether a node takes GPU pods, and if not, why.
#include <fmt/core.h>

#include <algorithm>

#include "alloc/ledger.h"

namespace tessera::alloc {

namespace {

constexpr std::string_view kInventoryGone =
    "it has no tessera.io/inventory but its pods hold GPUs by UUID; check that tessera-agent runs there";

// kubelet rejects a GPU pod for good while no agent is registered, so such a node takes none.
constexpr std::string_view kDraining =
    "its agent has stopped or is restarting (annotation tessera.io/draining); check that tessera-agent runs "
    "there";
constexpr std::string_view kAgentDown = "its agent is not ready; check the tessera-agent pod there";

}  // namespace

// Opens a node that has GPUs and the unit of the cluster. Fences it instead if its inventory is
// missing, a second plugin allocates its GPUs, the GPUs of one of its pods are unknown, or its agent
// serves no pods.
void Ledger::open_or_fence(NodeId id) {
  if (lost_its_inventory(id)) {
    fence(id, Fence::kUnreadable, std::string(kInventoryGone));
  } else if (const auto second = second_plugins_.find(raw(id)); second != second_plugins_.end()) {
    fence(id, Fence::kSecondPlugin, second->second);
  } else if (const auto pod = unreadable_pod(id)) {
    fence(id, Fence::kUnreadablePod, problem_text(*pod));
  } else if (const Node& node = nodes_[raw(id)]; node.unrecorded > 0) {
    fence(id, Fence::kUnrecordedPod, unrecorded_text(node));
  } else if (node.draining || node.agent_down) {
    fence(id, Fence::kAgentAway, std::string(node.draining ? kDraining : kAgentDown));
  } else {
    fence(id, Fence::kOpen, "");
  }
}

// Returns whether the node had an inventory that is missing now. Such a node looks like one of the
// original plugin, whose inventory is estimated from the capacity, but a pod's record names GPUs by
// UUID. Until the inventory is back or the pod has ended, the ledger cannot know which GPUs are
// free.
bool Ledger::lost_its_inventory(NodeId id) const {
  return states_.original(id).any() && std::ranges::any_of(nodes_[raw(id)].pods, [this](PodId pod) {
           const auto lost = [](const HeldShare& held) {
             return held.slot == HeldShare::kNotOnNode && !index_of_name(held.share.gpu);
           };
           return std::ranges::any_of(pods_[pod].shares, lost) || std::ranges::any_of(pods_[pod].kept, lost);
         });
}

std::optional<Ledger::PodId> Ledger::unreadable_pod(NodeId id) const {
  if (problem_count(ProblemKind::kUnreadablePod) == 0) {
    return std::nullopt;
  }
  const std::vector<PodId>& pods = nodes_[raw(id)].pods;
  const auto found = std::ranges::find_if(
      pods, [this](PodId pod) { return pods_[pod].record_problem == ProblemKind::kUnreadablePod; });
  return found == pods.end() ? std::nullopt : std::optional(*found);
}

// Names the first of the pods with unknown GPUs.
std::string Ledger::unrecorded_text(const Node& node) const {
  std::string first;
  for (const PodId pod : node.pods) {
    if (const std::string name = pods_[pod].key.text();
        pods_[pod].unrecorded && (first.empty() || name < first)) {
      first = name;
    }
  }
  const bool one = node.unrecorded == 1;
  return fmt::format(
      "pod {}{} started but {} no valid record, so it is not known which GPUs are free; tessera-agent there "
      "repairs the record, else delete the pod",
      first, one ? " has" : fmt::format(" and {} more have", node.unrecorded - 1), one ? "has" : "have");
}

// Checks the reasons for a fence that depend on the pods of the node.
void Ledger::check_fence(NodeId id) {
  const bool original_plugin = states_.original(id).any();
  switch (states_.fence(id)) {
    case Fence::kAbsent:
    case Fence::kNoGpus:
    case Fence::kUnitDiffers:
      return;
    case Fence::kUnreadable:
      if (!original_plugin) {
        return;  // the inventory is there, but damaged
      }
      break;
    case Fence::kOpen:
      if (!original_plugin && nodes_[raw(id)].unrecorded == 0 && !unreadable_pod(id)) {
        return;
      }
      break;
    case Fence::kSecondPlugin:
    case Fence::kUnreadablePod:
    case Fence::kUnrecordedPod:
    case Fence::kAgentAway:
      break;
  }
  open_or_fence(id);
}

void Ledger::fence(NodeId id, Fence why, std::string text) {
  Node& node = nodes_[raw(id)];
  const bool fence_changes = states_.fence(id) != why;
  if (fence_changes) {
    states_.set_fence(id, why);
    ++inventory_version_;
  }
  const bool text_changes = fence_text(id) != text;
  if (text.empty()) {
    fence_texts_.erase(raw(id));
  } else {
    fence_texts_[raw(id)] = std::move(text);
  }
  const auto problem = why == Fence::kUnreadable      ? std::optional(ProblemKind::kUnreadableInventory)
                       : why == Fence::kUnitDiffers   ? std::optional(ProblemKind::kUnitDiffers)
                       : why == Fence::kSecondPlugin  ? std::optional(ProblemKind::kSecondPlugin)
                       : why == Fence::kUnrecordedPod ? std::optional(ProblemKind::kUnrecordedPod)
                                                      : std::nullopt;
  if (problem && node.problem == problem && text_changes) {
    ++problem_totals_[static_cast<std::size_t>(*problem)];  // same kind, but a different text
  }
  set_node_problem(node, problem);
  // The fence decides whether a GPU that a pod holds but the node lacks is a problem, so check all
  // pods again.
  if (fence_changes) {
    for (const PodId pod : node.pods) {
      unsettle(pods_[pod]);
      settle(pods_[pod]);
    }
    check_overcommitment(id);
  }
}

void Ledger::set_node_problem(Node& node, std::optional<ProblemKind> problem) {
  if (node.problem == problem) {
    return;
  }
  if (node.problem) {
    --problem_counts_[static_cast<std::size_t>(*node.problem)];
  }
  if (problem) {
    ++problem_counts_[static_cast<std::size_t>(*problem)];
    ++problem_totals_[static_cast<std::size_t>(*problem)];
  }
  node.problem = problem;
}

}  // namespace tessera::alloc
