// Makes the choice on a node, with its record.
#include <algorithm>
#include <utility>

#include "alloc/placer.h"
#include "alloc/query.h"

namespace tessera::alloc {

Result<Choice> Placer::choose(const Request& request, NodeId node) {
  SearchBudget budget;
  const Query query = prepare(request, budget);
  const NodeView view = ledger_->view(node);
  GpuChoice found;
  if (!choose_gpus(query, view, found)) {
    return fail(ErrorCode::kExhausted,
                phrase(why_not(query, node), request, ledger_->options().unit, ledger_->options().names));
  }
  return choice_of(query, view, found);
}

Result<Choice> Placer::choose_best(const Request& request, std::span<const NodeId> nodes) {
  std::vector<Score> scores(nodes.size());
  score(request, nodes, scores);
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool better =
        scores[i] != kDoesNotFit &&
        (!best || scores[i] > scores[*best] ||
         (scores[i] == scores[*best] && ledger_->node_name(nodes[i]) < ledger_->node_name(nodes[*best])));
    best = better ? i : best;
  }
  if (!best) {
    return fail(ErrorCode::kExhausted, "no node fits");
  }
  return choose(request, nodes[*best]);
}

Choice Placer::choice_of(const Query& query, const NodeView& view, const GpuChoice& found) {
  const Request& request = *query.request;
  Choice choice;
  choice.node = view.id;
  choice.layout_version = ledger_->states().layout_version(view.id);
  choice.score = score_of(query, view, found);
  choice.share_gpus = found.share_gpus;
  choice.whole_gpus = found.whole_gpus;
  if (found.whole_gpus != 0) {
    choice.ring_mbps = found.set.ring_mbps;
    choice.ideal_ring_mbps = found.set.ideal_mbps;
  }
  std::vector<SharesBySlot> shares(request.gpus.containers.size());
  add_shares(query, found, shares);
  if (request.shape.whole > 0) {
    add_whole(query, view, found.whole_gpus, shares);
  }
  const std::span<const LedgerGpu> gpus = ledger_->gpus(view.id);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    ContainerShares& container = choice.record.containers.emplace_back();
    container.container = request.gpus.containers[i].name;
    for (auto& [slot, share] : shares[i]) {
      share.gpu = gpus[slot].uuid.text();
      container.shares.push_back(std::move(share));
    }
  }
  return choice;
}

void Placer::add_shares(const Query& query, const GpuChoice& found, std::span<SharesBySlot> shares) {
  const Request& request = *query.request;
  for (std::size_t i = 0; i < request.gpus.containers.size(); ++i) {
    const SharePart share = part_of(request.gpus.containers[i], request.split);
    if (share.units == 0) {
      continue;
    }
    const auto is_mine = [i](const Part& part) { return part.container == static_cast<std::int16_t>(i); };
    GpuMask slots = found.part_gpus[0];
    if (request.has_several_parts()) {
      const auto staying = std::ranges::find_if(query.parts, is_mine);
      const auto init = std::ranges::find_if(query.init_parts, is_mine);
      const std::size_t at =
          staying != query.parts.end()
              ? static_cast<std::size_t>(staying - query.parts.begin())
              : query.parts.size() + static_cast<std::size_t>(init - query.init_parts.begin());
      slots = found.part_gpus[at];
    }
    for (const unsigned slot : topology::GpuIndices(slots)) {
      shares[i][slot] = {.gpu = {}, .units = share.units, .core_percent = share.core_percent};
    }
  }
}

// Divides the set among the containers so that the GPUs of each container are also well connected.
void Placer::add_whole(const Query& query, const NodeView& view, GpuMask set,
                       std::span<SharesBySlot> shares) {
  const GpuRequest& request = query.request->gpus;
  std::vector<std::uint8_t> order;
  GpuMask rest = set;
  const auto next = [&](unsigned count) {
    const auto part = whole_sets_.choose(view, machine_names(view.id), query.whole_policy, rest, count, 0);
    for (const unsigned slot : topology::GpuIndices(part ? part->gpus : 0)) {
      order.push_back(static_cast<std::uint8_t>(slot));
    }
    rest &= part ? ~part->gpus : rest;
  };
  for (const ContainerKind kind : {ContainerKind::kSidecar, ContainerKind::kMain}) {
    for (const ContainerRequest& container : request.containers) {
      if (container.kind == kind && container.whole > 0) {
        next(container.whole);
      }
    }
  }
  for (const unsigned slot : topology::GpuIndices(rest)) {
    order.push_back(static_cast<std::uint8_t>(slot));
  }
  const auto split = request.split_whole();
  for (std::size_t i = 0; i < split.size(); ++i) {
    for (const std::uint32_t which : split[i]) {
      shares[i][order[which]] = {.gpu = {}, .whole = true};
    }
  }
}

}  // namespace tessera::alloc
