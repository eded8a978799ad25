#include "alloc/placer.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "alloc/node_score.h"
#include "alloc/query.h"
#include "alloc/share_policy.h"

namespace tessera::alloc {

Placer::Placer(const Ledger& ledger) : Placer(ledger, Options{}) {}

Placer::Placer(const Ledger& ledger, Options options)
    : ledger_(&ledger),
      options_(std::move(options)),
      whole_sets_(options_.static_sets),
      fgd_(ledger),
      cache_(ledger) {
  fgd_.set_typical(options_.typical);
}

Placer::~Placer() = default;

Policy Placer::share_policy(const Request& request) const {
  return request.share_policy.value_or(options_.share_policy);
}

Policy Placer::whole_policy(const Request& request) const {
  return request.whole_policy.value_or(options_.whole_policy);
}

namespace {

void add_parts(const Request& request, Query& query) {
  if (request.gpus.units == 0) {
    return;
  }
  if (!request.has_several_parts()) {
    query.parts.push_back({.share = request.shape.share});
    return;
  }
  const std::vector<ContainerRequest>& containers = request.gpus.containers;
  bool has_init = false;
  for (std::size_t i = 0; i < containers.size(); ++i) {
    if (containers[i].units == 0) {
      continue;
    }
    const Part part{.share = part_of(containers[i], request.split),
                    .kind = containers[i].kind,
                    .container = static_cast<std::int16_t>(i)};
    if (part.kind != ContainerKind::kInit) {
      query.parts.push_back(part);
    }
    if (part.kind != ContainerKind::kMain) {
      query.init_parts.push_back(part);
      has_init = has_init || part.kind == ContainerKind::kInit;
    }
  }
  if (!has_init) {
    query.init_parts.clear();
  }
  std::ranges::sort(query.parts, [](const Part& a, const Part& b) {
    return a.share.units != b.share.units ? a.share.units > b.share.units : a.container < b.container;
  });
}

std::vector<GpuUuid> sorted(const std::vector<std::string>& uuids) {
  std::vector<GpuUuid> all(uuids.begin(), uuids.end());
  std::ranges::sort(all);
  return all;
}

bool is_among(const std::vector<GpuUuid>& uuids, const LedgerGpu& gpu) {
  return std::ranges::binary_search(uuids, gpu.uuid);
}

// Returns the original plugins that can serve a request. Both serve only one container, a main
// container: kubelet calls them with the devices of one container, and they look for a pod whose main
// containers request that total.
OriginalPlugins suitable_plugins(const Request& request) {
  unsigned containers = 0;
  bool all_main = true;
  for (const ContainerRequest& container : request.gpus.containers) {
    const bool uses_gpus = container.units > 0 || container.whole > 0;
    containers += uses_gpus ? 1 : 0;
    all_main = all_main && (!uses_gpus || container.kind == ContainerKind::kMain);
  }
  const Shape& shape = request.shape;
  const bool one_main = containers == 1 && all_main;
  return {.shares = one_main && shape.whole == 0 && shape.share.gpus == 1 && request.gpus.core_percent == 0,
          .whole = one_main && shape.whole > 0 && request.gpus.units == 0};
}

// Returns the wholly free GPUs that are larger than the smallest. On a node with several models,
// the large GPUs are left for shares if there are enough others.
GpuMask larger_than_needed(const NodeView& view, GpuMask free) {
  std::uint32_t smallest = std::numeric_limits<std::uint32_t>::max();
  for (const unsigned slot : topology::GpuIndices(free)) {
    smallest = std::min(smallest, view.total[slot]);
  }
  GpuMask larger = 0;
  for (const unsigned slot : topology::GpuIndices(free)) {
    larger |= view.total[slot] > smallest ? topology::gpu_bit(slot) : 0;
  }
  return larger;
}

}  // namespace

Query Placer::prepare(const Request& request, SearchBudget& budget) {
  Query query;
  query.request = &request;
  query.budget = &budget;
  query.share_policy = share_policy(request);
  query.whole_policy = whole_policy(request);
  if (query.share_policy == Policy::kFgd && fgd_.refresh()) {
    cache_.forget(Policy::kFgd);
  }
  add_parts(request, query);
  const bool plain =
      request.uuids.empty() && request.uuids_excluded.empty() && request.gpus.core_percent == 0;
  query.plain_share = plain && request.shape.whole == 0 && query.parts.size() == 1 &&
                      query.parts.front().share.gpus == 1 && query.init_parts.empty();
  query.plain_whole = plain && request.shape.whole > 0 && request.gpus.units == 0;
  query.original = suitable_plugins(request);
  query.model_allowed = ledger_->models_matching(request.models);
  query.uuids = sorted(request.uuids);
  query.uuids_excluded = sorted(request.uuids_excluded);
  return query;
}

GpuMask Placer::allowed(const Query& query, const NodeView& view) const {
  const GpuMask all = topology::first_gpus(view.size());
  if (!query.request->has_constraints()) {
    return all;
  }
  GpuMask mask = all;
  if (!query.model_allowed.empty()) {
    const std::uint8_t* allows = query.model_allowed.data();
    mask = 0;
    for (unsigned slot = 0; slot < view.size(); ++slot) {
      mask |= GpuMask{allows[view.model[slot]]} << slot;
    }
  }
  if (query.uuids.empty() && query.uuids_excluded.empty()) {
    return mask;
  }
  const std::span<const LedgerGpu> gpus = ledger_->gpus(view.id);
  for (const unsigned slot : topology::GpuIndices(mask)) {
    const bool wanted = query.uuids.empty() || is_among(query.uuids, gpus[slot]);
    const bool ok = wanted && !is_among(query.uuids_excluded, gpus[slot]);
    mask &= ok ? ~GpuMask{0} : ~topology::gpu_bit(slot);
  }
  return mask;
}

MachineNames Placer::machine_names(NodeId id) const {
  return {.own = ledger_->machine(id), .instance_type = ledger_->instance_type(id)};
}

bool Placer::choose_whole(const Query& query, const NodeView& view, GpuMask may, GpuChoice& choice) {
  const GpuMask free = view.whole_free & may;
  const unsigned count = query.request->shape.whole;
  const auto set = whole_sets_.choose(view, machine_names(view.id), query.whole_policy, free, count,
                                      larger_than_needed(view, free));
  if (!set) {
    return false;
  }
  choice.set = *set;
  choice.whole_gpus = set->gpus;
  return true;
}

bool Placer::may_serve(const Query& query, const NodeView& view) const {
  const Request& request = *query.request;
  if (options_.check_cpu_and_memory && (request.shape.node.cpu_milli > view.cpu_milli_left ||
                                        request.shape.node.memory_bytes > view.memory_bytes_left)) {
    return false;
  }
  if (!request.gpus.any()) {
    return ledger_->states().fence(view.id) != Fence::kAbsent;
  }
  return ledger_->states().fence(view.id) == Fence::kOpen && !is_beyond_plugin(query, view.original) &&
         (view.mps || request.gpus.core_percent == 0);
}

bool Placer::fits(const Query& query, const NodeView& view) {
  const Request& request = *query.request;
  if (!may_serve(query, view)) {
    return false;
  }
  if (!request.gpus.any()) {
    return true;
  }
  if (request.shape.whole == 0 && query.parts.size() == 1 && query.init_parts.empty()) {
    return has_room(view, allowed(query, view), query.parts.front().share);
  }
  if (request.gpus.units == 0) {
    return topology::gpu_count(view.whole_free & allowed(query, view)) >= request.shape.whole;
  }
  GpuChoice found;
  return choose_gpus(query, view, found);
}

bool Placer::choose_gpus(const Query& query, const NodeView& view, GpuChoice& choice) {
  choice.share_gpus = 0;
  choice.whole_gpus = 0;
  query.budget->begin();
  if (!may_serve(query, view)) {
    return false;
  }
  const Request& request = *query.request;
  const bool wants_whole = request.shape.whole > 0;
  const GpuMask may = request.gpus.any() ? allowed(query, view) : 0;
  if (query.share_policy == Policy::kFgd) {
    return choose_by_fgd(query, view, may, choice);
  }
  if (request.gpus.units > 0 && !choose_shares(query, view, may, wants_whole, choice)) {
    return false;
  }
  return !wants_whole || choose_whole(query, view, may & ~choice.share_gpus, choice);
}

bool Placer::choose_by_fgd(const Query& query, const NodeView& view, GpuMask may, GpuChoice& choice) {
  const Request& request = *query.request;
  const bool wants_whole = request.shape.whole > 0;
  const std::int64_t cpu = request.shape.node.cpu_milli;
  if (!wants_whole && query.parts.size() == 1 && query.init_parts.empty()) {
    const auto best = fgd_.choose_share(view, may, query.parts.front().share, cpu);
    choice.part_gpus[0] = choice.share_gpus = best ? best->gpus : 0;
    choice.level = best ? best->level : 0;
    return best.has_value();
  }
  if (request.gpus.units > 0 && !choose_shares(query, view, may, wants_whole, choice)) {
    return false;
  }
  if (wants_whole && !choose_whole(query, view, may & ~choice.share_gpus, choice)) {
    return false;
  }
  choice.level = choice.share_gpus == 0 ? fgd_.level_of_whole(view, choice.whole_gpus, cpu)
                                        : fgd_.level_of(query, view, choice);
  return true;
}

}  // namespace tessera::alloc
