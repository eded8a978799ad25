// Finds the nodes where a request fits, and the reasons why it does not fit on the others.
#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "alloc/placer.h"
#include "alloc/query.h"

namespace tessera::alloc {

namespace {

// Returns the reason that corresponds to a fence; it does not depend on the request.
Reason reason_of(Fence fence) {
  switch (fence) {
    case Fence::kOpen:
      return Reason::kFits;
    case Fence::kAbsent:
      return Reason::kUnknownNode;
    case Fence::kNoGpus:
      return Reason::kNoGpus;
    case Fence::kUnreadable:
      return Reason::kInventoryUnreadable;
    case Fence::kUnitDiffers:
      return Reason::kUnitDiffers;
    case Fence::kSecondPlugin:
      return Reason::kSecondPlugin;
    case Fence::kAgentAway:
      return Reason::kAgentAway;
    case Fence::kUnreadablePod:
      return Reason::kUnreadablePod;
    case Fence::kUnrecordedPod:
      break;
  }
  return Reason::kUnrecordedPod;
}

// Returns the reason for a request that the original plugins of a node cannot serve.
Reason reason_of(OriginalPlugins plugins) {
  return plugins.shares ? Reason::kOriginalPlugin : Reason::kOriginalTopologyPlugin;
}

}  // namespace

// For a node whose GPUs have an allowed model.
inline Reason Placer::reason_plain(const Query& query, NodeId node) const {
  const NodeStates& states = ledger_->states();
  const Shape& shape = query.request->shape;
  const bool fits = query.plain_share ? states.largest_free(node) >= shape.share.units
                                      : states.whole_free(node) >= shape.whole;
  return fits && !is_beyond_plugin(query, states.original(node)) ? Reason::kFits : why_not_plain(query, node);
}

// For a node whose GPUs all have a model that is not allowed.
Reason Placer::why_not_model(const Query& query, NodeId node) const {
  const NodeStates& states = ledger_->states();
  if (const Fence fence = states.fence(node); fence != Fence::kOpen) {
    return reason_of(fence);
  }
  const OriginalPlugins plugins = states.original(node);
  return is_beyond_plugin(query, plugins) ? reason_of(plugins) : Reason::kNoSuchModel;
}

void Placer::filter(const Request& request, std::span<const NodeId> nodes, std::span<Reason> reasons) {
  SearchBudget budget;
  const Query query = prepare(request, budget);
  const NodeStates& states = ledger_->states();
  const bool plain = (query.plain_share || query.plain_whole) && !options_.check_cpu_and_memory;
  if (plain && query.model_allowed.empty()) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      reasons[i] = reason_plain(query, nodes[i]);
    }
    return;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const ModelId model = plain ? states.only_model(nodes[i]) : kSeveralModels;
    if (model != kSeveralModels) {
      const bool allowed_model = query.model_allowed[model] != 0;
      reasons[i] = allowed_model ? reason_plain(query, nodes[i]) : why_not_model(query, nodes[i]);
    } else {
      reasons[i] = fits(query, states.view(nodes[i])) ? Reason::kFits : why_not(query, nodes[i]);
    }
  }
}

Reason Placer::reason(const Request& request, NodeId node) {
  Reason reason{};
  filter(request, std::span(&node, 1), std::span(&reason, 1));
  return reason;
}

GpuMask Placer::allowed(const Request& request, NodeId node) {
  SearchBudget budget;
  return allowed(prepare(request, budget), ledger_->view(node));
}

bool Placer::fits_without(const Request& request, NodeId node, std::span<const std::string_view> uids,
                          SearchBudget& budget, bool check_cpu_and_memory) {
  const Query query = prepare(request, budget);
  const NodeStates& states = ledger_->states();
  NodeView view = ledger_->view(node);
  std::array<GpuLoad, topology::kMaxGpus> loads;
  for (unsigned slot = 0; slot < view.size(); ++slot) {
    loads[slot] = states.gpu_load(node, slot);
  }
  NodeUse used = states.used(node);
  for (std::size_t i = 0; i < uids.size(); ++i) {
    const auto victim = ledger_->holding(uids[i]);
    const bool counted = std::ranges::find(uids.first(i), uids[i]) != uids.first(i).end();
    if (!victim || victim->node != node || counted) {
      continue;
    }
    used.cpu_milli -= victim->node_use.cpu_milli;
    used.memory_bytes -= victim->node_use.memory_bytes;
    for (const HeldShare& held : victim->shares) {
      if (held.slot >= 0) {
        GpuLoad& load = loads[static_cast<std::uint8_t>(held.slot)];
        load.units -= held.share.units;
        load.core_percent -= held.share.core_percent;
        load.whole -= held.share.whole ? 1 : 0;
      }
    }
  }
  view.cpu_milli_left = std::max<std::int64_t>(0, view.cpu_milli_total - used.cpu_milli);
  view.memory_bytes_left = std::max<std::int64_t>(0, view.memory_bytes_total - used.memory_bytes);
  if (check_cpu_and_memory && (request.shape.node.cpu_milli > view.cpu_milli_left ||
                               request.shape.node.memory_bytes > view.memory_bytes_left)) {
    return false;
  }
  std::array<std::uint32_t, topology::kMaxGpus> free{};
  std::array<std::uint16_t, topology::kMaxGpus> core_free{};
  view.whole_free = view.shared = 0;
  for (unsigned slot = 0; slot < view.size(); ++slot) {
    const GpuMask bit = topology::gpu_bit(slot);
    const GpuRoom room = room_on(view.total[slot], (view.healthy & bit) != 0, loads[slot]);
    free[slot] = room.free;
    core_free[slot] = room.core_free;
    view.shared |= loads[slot].units > 0 ? bit : 0;
    view.whole_free |= room.whole_free ? bit : 0;
  }
  view.free = std::span(free).first(view.size());
  view.core_free = std::span(core_free).first(view.size());
  return fits(query, view);
}

Reason Placer::why_not_plain(const Query& query, NodeId node) const {
  const NodeStates& states = ledger_->states();
  if (const Fence fence = states.fence(node); fence != Fence::kOpen) {
    return reason_of(fence);
  }
  if (const OriginalPlugins plugins = states.original(node); is_beyond_plugin(query, plugins)) {
    return reason_of(plugins);
  }
  const Shape& shape = query.request->shape;
  if (shape.whole > 0) {
    const unsigned whole = shape.whole;
    return states.gpus(node) < whole    ? Reason::kTooFewGpus
           : states.any_unhealthy(node) ? why_not_free(query, node)
                                        : Reason::kTooFewWholeGpus;
  }
  const std::uint32_t units = shape.share.units;
  return states.largest_total(node) < units ? Reason::kGpusTooSmall
         : states.any_unhealthy(node)       ? why_not_free(query, node)
                                            : Reason::kNoGpuWithEnoughFree;
}

// Finds the reason for a plain request on a node with unhealthy GPUs, where the columns of
// NodeStates do not suffice.
Reason Placer::why_not_free(const Query& query, NodeId node) const {
  const NodeView view = ledger_->states().view(node);
  return why_not_gpus(query, view, allowed(query, view));
}

// Returns the first reason that alone prevents a fit. Reasons that eviction cannot change come
// first.
Reason Placer::why_not(const Query& query, NodeId node) const {
  const NodeStates& states = ledger_->states();
  const Request& request = *query.request;
  const Shape& shape = request.shape;
  if (const Fence fence = states.fence(node);
      fence == Fence::kAbsent || (request.gpus.any() && fence != Fence::kOpen)) {
    return reason_of(fence);
  }
  if (options_.check_cpu_and_memory && shape.node.cpu_milli > states.cpu_left(node)) {
    return Reason::kTooLittleCpu;
  }
  if (options_.check_cpu_and_memory && shape.node.memory_bytes > states.memory_left(node)) {
    return Reason::kTooLittleMemory;
  }
  const NodeView view = states.view(node);
  if (is_beyond_plugin(query, view.original)) {
    return reason_of(view.original);
  }
  if (request.gpus.core_percent > 0 && !view.mps) {
    return Reason::kNoMps;
  }
  const GpuMask may = allowed(query, view);
  if (may == 0) {
    return Reason::kNoSuchModel;
  }
  return why_not_gpus(query, view, may);
}

Reason Placer::why_not_gpus(const Query& query, const NodeView& view, GpuMask may) const {
  const Shape& shape = query.request->shape;
  unsigned large_enough = 0;
  unsigned healthy = 0;
  unsigned healthy_and_large_enough = 0;  // would have room if all pods were evicted
  unsigned free_enough = 0;
  unsigned whole = 0;
  for (const unsigned slot : topology::GpuIndices(may)) {
    const GpuLoad load = ledger_->states().gpu_load(view.id, slot);
    const bool is_healthy = (view.healthy & topology::gpu_bit(slot)) != 0;
    const bool is_large = view.total[slot] >= shape.share.units;
    const bool has_room = load.whole == 0 && load.units + shape.share.units <= view.total[slot] &&
                          view.core_free[slot] >= shape.share.core_percent;
    large_enough += is_large ? 1 : 0;
    healthy += is_healthy ? 1 : 0;
    healthy_and_large_enough += is_large && is_healthy ? 1 : 0;
    free_enough += has_room && is_healthy ? 1 : 0;
    whole += (view.whole_free & topology::gpu_bit(slot)) != 0 ? 1 : 0;
  }
  const unsigned share_gpus = shape.share.gpus;
  if (share_gpus > 0 && large_enough == 0) {
    return Reason::kGpusTooSmall;
  }
  if (topology::gpu_count(may) < share_gpus + shape.whole) {
    return Reason::kTooFewGpus;
  }
  if (large_enough < share_gpus) {
    return Reason::kGpusTooSmall;
  }
  if (healthy_and_large_enough < share_gpus || healthy < share_gpus + shape.whole) {
    return Reason::kUnhealthy;
  }
  if (share_gpus > free_enough) {
    return share_gpus == 1 ? Reason::kNoGpuWithEnoughFree : Reason::kTooFewGpusWithEnoughFree;
  }
  if (shape.whole > whole) {
    return Reason::kTooFewWholeGpus;
  }
  // The GPUs suffice for the shares alone and for the whole GPUs alone, but not for both.
  if (shape.whole > 0 && !query.request->has_several_parts()) {
    return Reason::kTooFewWholeGpus;
  }
  return query.budget->ended() ? Reason::kSearchEnded : Reason::kContainersDoNotFit;
}

}  // namespace tessera::alloc
