// Read access to the ledger: holdings, problems and their texts.
#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "alloc/ledger.h"
#include "base/strings.h"

namespace tessera::alloc {

std::vector<NodeId> Ledger::nodes_by_name() const {
  std::vector<NodeId> ids(present_);
  std::ranges::sort(ids, {}, [this](NodeId id) -> const std::string& { return node_name(id); });
  return ids;
}

std::string_view Ledger::unhealthy(NodeId id, unsigned slot) const {
  const auto found = unhealthy_.find(raw(id));
  return found == unhealthy_.end() ? std::string_view() : found->second[slot];
}

std::string_view Ledger::fence_text(NodeId id) const {
  const auto found = fence_texts_.find(raw(id));
  return found == fence_texts_.end() ? std::string_view() : found->second;
}

std::vector<std::uint8_t> Ledger::models_matching(std::span<const std::string> wanted) const {
  std::vector<std::uint8_t> matching(wanted.empty() ? 0 : models_.size(), 0);
  for (const std::string& name : wanted) {
    const std::string words = model_words(name);
    for (std::size_t id = 0; id < matching.size(); ++id) {
      if (words_match(models_[id].words, words)) {
        matching[id] = 1;
      }
    }
  }
  return matching;
}

std::vector<GpuName> Ledger::gpu_names(NodeId id) const {
  std::vector<GpuName> names;
  const NodeView view = states_.view(id);
  for (unsigned slot = 0; slot < view.size(); ++slot) {
    const LedgerGpu& gpu = nodes_[raw(id)].gpus[slot];
    names.push_back({.uuid = gpu.uuid.text(), .index = gpu.index, .units = view.total[slot]});
  }
  return names;
}

PodHolding Ledger::holding_of(const Pod& pod) const {
  PodHolding holding;
  holding.pod = pod.key;
  holding.node = pod.node;
  holding.bound = pod.state == PodState::kBound;
  holding.decided = pod.decided;
  holding.units = pod.units;
  holding.whole = pod.whole;
  holding.node_use = pod.node_use;
  if (pod.on_only_gpu) {
    holding.shares.push_back({.share = {.gpu = nodes_[raw(pod.node)].gpus.front().uuid.text(),
                                        .units = pod.units,
                                        .core_percent = pod.core_percent,
                                        .whole = pod.whole > 0},
                              .slot = 0});
  } else if (pod.decided) {
    holding.shares = counted_shares(pod);
  }
  return holding;
}

std::vector<PodHolding> Ledger::holdings(NodeId id) const {
  std::vector<PodHolding> all;
  for (const PodId pod : nodes_[raw(id)].pods) {
    if (pods_[pod].units > 0 || pods_[pod].whole > 0) {
      all.push_back(holding_of(pods_[pod]));
    }
  }
  std::ranges::sort(all, {}, [](const PodHolding& holding) {
    return std::tie(holding.pod.namespace_name, holding.pod.name, holding.pod.uid);
  });
  return all;
}

std::optional<PodHolding> Ledger::holding(std::string_view uid) const {
  const auto found = by_uid_.find(uid);
  return found == by_uid_.end() ? std::nullopt : std::optional(holding_of(pods_[found->second]));
}

std::size_t Ledger::problem_count(ProblemKind kind) const {
  return problem_counts_[static_cast<std::size_t>(kind)];
}

std::uint64_t Ledger::problem_total(ProblemKind kind) const {
  return problem_totals_[static_cast<std::size_t>(kind)];
}

std::string Ledger::problem_text(PodId id) const {
  const Pod& pod = pods_[id];
  const std::string& node = nodes_[raw(pod.node)].name;
  const auto fault = record_faults_.find(id);
  switch (*pod.problem) {
    case ProblemKind::kInvalidRequest:
      return fmt::format("pod {} on node {} has an invalid GPU request: {}; correct its limits",
                         pod.key.text(), node, fault->second);
    case ProblemKind::kUnreadableRecord:
    case ProblemKind::kWrongRecord:
      return fmt::format(
          "pod {} on node {}: its record is invalid: {}; delete the pod so that it is scheduled again",
          pod.key.text(), node, fault->second);
    case ProblemKind::kUnreadablePod:
      return fmt::format(
          "pod {} on node {} cannot be read: {}; the node takes no more GPU pods until it is deleted",
          pod.key.text(), node, fault->second);
    case ProblemKind::kChangedRecord:
      return fmt::format(
          "pod {} on node {}: its record was {} although the pod has its GPUs; Tessera still counts GPU {} "
          "for it; if tessera-agent there does not repair the record, delete the pod",
          pod.key.text(), node, fault == record_faults_.end() ? "replaced" : fault->second,
          join_words(held_list(pod)));
    case ProblemKind::kUnknownIndex:
    case ProblemKind::kLostGpu:
      break;
    default:
      if (pod.unrecorded) {
        return fmt::format(
            "pod {} runs on node {} without a record of its GPUs; if tessera-agent there does not write it "
            "again, delete the pod",
            pod.key.text(), node);
      }
      return fmt::format(
          "pod {} runs on node {} without a GPU allocation; create it again with the schedulerName of "
          "Tessera's scheduler and without nodeName",
          pod.key.text(), node);
  }
  std::vector<std::string> lost;
  for (const HeldShare& held : pod.shares) {
    if (held.slot == HeldShare::kNotOnNode) {
      lost.push_back(in_quotes(held.share.gpu));
    }
  }
  return fmt::format(
      "pod {} holds GPU {}, which node {} does not have; delete the pod so that it is scheduled again",
      pod.key.text(), join_words(lost), node);
}

// Returns the GPUs that a pod holds, in order: their indices, or their UUIDs if the node does not
// have them.
std::vector<std::string> Ledger::held_list(const Pod& pod) const {
  std::vector<HeldShare> held = counted_shares(pod);
  std::ranges::sort(held, {}, [](const HeldShare& one) { return std::tie(one.slot, one.share.gpu); });
  std::vector<std::string> names;
  for (const HeldShare& one : held) {
    const std::vector<LedgerGpu>& gpus = nodes_[raw(pod.node)].gpus;
    names.push_back(one.slot == HeldShare::kNotOnNode
                        ? in_quotes(one.share.gpu)
                        : std::to_string(gpus[static_cast<std::size_t>(one.slot)].index));
  }
  return names;
}

std::string Ledger::holding_text(const PodHolding& holding) const {
  std::string text;
  for (const HeldShare& held : holding.shares) {
    text += text.empty() ? "" : ", ";
    text += held.slot == HeldShare::kNotOnNode
                ? fmt::format("{} (not on the node)", held.share.gpu)
                : fmt::format("GPU {} ({})", gpus(holding.node)[static_cast<std::size_t>(held.slot)].index,
                              held.share.gpu);
    text += " " + (held.share.whole ? "whole" : options_.unit.amount(held.share.units));
  }
  if (!text.empty()) {
    return text;
  }
  return holding.units > 0 || holding.whole > 0 ? "GPUs that no record names" : "no GPU";
}

std::vector<Problem> Ledger::problems(std::size_t most) const {
  std::vector<Problem> all;
  for (const NodeId id : present_) {
    const Node& node = nodes_[raw(id)];
    if (node.problem) {
      all.push_back({.kind = *node.problem,
                     .node = node.name,
                     .pod = "",
                     .text = fmt::format("node {}: {}", node.name, fence_text(id)),
                     .uid = ""});
    }
    if (const auto differs = capacity_texts_.find(raw(id)); differs != capacity_texts_.end()) {
      all.push_back({.kind = ProblemKind::kCapacityDiffers,
                     .node = node.name,
                     .pod = "",
                     .text = fmt::format("node {}: {}", node.name, differs->second),
                     .uid = ""});
    }
    if (node.overcommitted) {
      all.push_back(
          {.kind = ProblemKind::kOvercommitted,
           .node = node.name,
           .pod = "",
           .text = fmt::format("node {}: pods hold more of GPU {} than there is; run \"tessera inspect {}\"",
                               node.name, overcommitted_list(id), node.name),
           .uid = ""});
    }
  }
  for (const auto& [uid, id] : by_uid_) {
    if (pods_[id].problem) {
      all.push_back({.kind = *pods_[id].problem,
                     .node = nodes_[raw(pods_[id].node)].name,
                     .pod = pods_[id].key.text(),
                     .text = problem_text(id),
                     .uid = std::string(uid)});
    }
  }
  std::ranges::sort(all, {}, [](const Problem& p) { return std::tie(p.kind, p.node, p.pod, p.text); });
  std::array<std::size_t, kProblemKinds> seen{};
  std::erase_if(all, [&](const Problem& p) { return ++seen[static_cast<std::size_t>(p.kind)] > most; });
  return all;
}

std::string Ledger::overcommitted_list(NodeId id) const {
  std::vector<std::string> indices;
  for (const unsigned slot : topology::GpuIndices(states_.overcommitted(id))) {
    indices.push_back(std::to_string(nodes_[raw(id)].gpus[slot].index));
  }
  return join_words(indices);
}

}  // namespace tessera::alloc
