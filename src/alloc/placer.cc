#include "alloc/placer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "alloc/node_score.h"
#include "alloc/query.h"
#include "alloc/share_policy.h"

namespace tessera::alloc {

Placer::Placer(const Ledger& ledger) : Placer(ledger, Options{}) {}

Placer::Placer(const Ledger& ledger, Options options)
    : ledger_(&ledger), options_(std::move(options)), whole_sets_(options_.static_sets) {}

Placer::~Placer() = default;

Policy Placer::share_policy(const Request& request) const {
  return request.share_policy.value_or(options_.share_policy);
}

Policy Placer::whole_policy(const Request& request) const {
  return request.whole_policy.value_or(options_.whole_policy);
}

namespace {

SharePart part_of(const ContainerRequest& container, std::uint16_t split) {
  return {.units = container.units / split,
          .core_percent = static_cast<std::uint16_t>(container.core_percent / split),
          .gpus = split};
}

void add_parts(const Request& request, Query& query) {
  if (request.demand.units == 0) {
    return;
  }
  if (!request.has_several_parts()) {
    query.parts.push_back({.share = request.shape.share});
    return;
  }
  const std::vector<ContainerRequest>& containers = request.demand.containers;
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
  std::ranges::stable_sort(query.parts, std::greater<>(), [](const Part& part) { return part.share.units; });
}

std::vector<std::pair<std::size_t, std::string_view>> hashed(const std::vector<std::string>& uuids) {
  std::vector<std::pair<std::size_t, std::string_view>> all;
  for (const std::string& uuid : uuids) {
    all.emplace_back(std::hash<std::string_view>{}(uuid), uuid);
  }
  std::ranges::sort(all);
  return all;
}

bool is_among(const std::vector<std::pair<std::size_t, std::string_view>>& uuids, const GpuFacts& gpu) {
  return std::ranges::binary_search(uuids, std::pair(gpu.uuid_hash, std::string_view(gpu.uuid)));
}

// Wholly free GPUs larger than the smallest: with several models in a node the large ones are better left to
// shares, if enough others are there.
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

Query Placer::prepare(const Request& request) const {
  Query query;
  query.request = &request;
  query.share_policy = share_policy(request);
  query.whole_policy = whole_policy(request);
  add_parts(request, query);
  const bool plain = !request.is_choosy() && request.demand.core_percent == 0;
  query.plain_share = plain && request.shape.whole == 0 && query.parts.size() == 1 &&
                      query.parts.front().share.gpus == 1 && query.init_parts.empty();
  query.plain_whole = plain && request.shape.whole > 0 && request.demand.units == 0;
  query.beyond_old_plugin = request.shape.whole > 0 || query.parts.size() > 1 || !query.init_parts.empty() ||
                            request.shape.share.gpus > 1 || request.demand.core_percent > 0;
  if (!request.models.empty()) {
    query.model_allowed.resize(ledger_->model_count());
    for (std::size_t id = 0; id < query.model_allowed.size(); ++id) {
      const std::string& model = ledger_->model_name(static_cast<ModelId>(id));
      query.model_allowed[id] = std::ranges::any_of(
          request.models, [&](const auto& wanted) { return model_matches(model, wanted); });
    }
  }
  query.uuids = hashed(request.uuids);
  query.uuids_excluded = hashed(request.uuids_excluded);
  return query;
}

GpuMask Placer::allowed(const Query& query, const NodeView& view) const {
  const GpuMask all = topology::first_gpus(view.size());
  if (!query.request->is_choosy()) {
    return all;
  }
  GpuMask mask = 0;
  const std::span<const GpuFacts> gpus = ledger_->gpus(view.id);
  for (unsigned slot = 0; slot < view.size(); ++slot) {
    const bool model_ok = query.model_allowed.empty() || query.model_allowed[view.model[slot]] != 0;
    const bool wanted = query.uuids.empty() || is_among(query.uuids, gpus[slot]);
    const bool ok = model_ok && wanted && !is_among(query.uuids_excluded, gpus[slot]);
    mask |= ok ? topology::gpu_bit(slot) : 0;
  }
  return mask;
}

bool Placer::pick_whole(const Query& query, const NodeView& view, GpuMask may, Pick& pick) {
  const GpuMask free = view.whole_free & may;
  const unsigned count = query.request->shape.whole;
  const auto set = whole_sets_.choose(view, ledger_->machine(view.id), query.whole_policy, free, count,
                                      larger_than_needed(view, free));
  if (!set) {
    return false;
  }
  pick.set = *set;
  pick.whole_gpus = set->gpus;
  return true;
}

bool Placer::may_serve(const Query& query, const NodeView& view) const {
  const Request& request = *query.request;
  if (options_.check_cpu_and_memory && (request.shape.node.cpu_milli > view.cpu_milli_left ||
                                        request.shape.node.memory_bytes > view.memory_bytes_left)) {
    return false;
  }
  if (!request.demand.any()) {
    return ledger_->states().fence(view.id) != Fence::kAbsent;
  }
  return ledger_->states().fence(view.id) == Fence::kOpen && !(view.old_plugin && query.beyond_old_plugin) &&
         (view.mps || request.demand.core_percent == 0);
}

bool Placer::fits(const Query& query, const NodeView& view) {
  const Request& request = *query.request;
  if (!may_serve(query, view)) {
    return false;
  }
  if (!request.demand.any()) {
    return true;
  }
  if (request.shape.whole == 0 && query.parts.size() == 1 && query.init_parts.empty()) {
    return has_room(view, allowed(query, view), query.parts.front().share);
  }
  if (request.demand.units == 0) {
    return topology::gpu_count(view.whole_free & allowed(query, view)) >= request.shape.whole;
  }
  Pick found;
  return pick(query, view, found);
}

bool Placer::pick(const Query& query, const NodeView& view, Pick& pick) {
  pick.share_gpus = 0;
  pick.whole_gpus = 0;
  if (!may_serve(query, view)) {
    return false;
  }
  const Request& request = *query.request;
  const bool wants_whole = request.shape.whole > 0;
  const GpuMask may = request.demand.any() ? allowed(query, view) : 0;
  if (request.demand.units > 0 && !pick_shares(query, view, may, wants_whole, pick)) {
    return false;
  }
  return !wants_whole || pick_whole(query, view, may & ~pick.share_gpus, pick);
}

void Placer::score(const Request& request, std::span<const NodeId> nodes, std::span<Score> scores) {
  const Query query = prepare(request);
  const NodeStates& states = ledger_->states();
  const std::uint32_t units = request.shape.share.units;
  const unsigned whole = request.shape.whole;
  Pick found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool hopeless = (query.plain_share && states.largest_free(nodes[i]) < units) ||
                          (query.plain_whole && states.whole_free(nodes[i]) < whole);
    if (hopeless) {
      scores[i] = kDoesNotFit;
      continue;
    }
    const NodeView view = states.view(nodes[i]);
    scores[i] =
        pick(query, view, found) ? node_score(query, view, found, ledger_->options().unit) : kDoesNotFit;
  }
}

Result<Choice> Placer::choose(const Request& request, NodeId node) {
  const Query query = prepare(request);
  const NodeView view = ledger_->view(node);
  Pick found;
  if (!pick(query, view, found)) {
    return fail(ErrorCode::kExhausted,
                phrase(why_not(query, node), request, ledger_->options().unit, ledger_->options().names));
  }
  return choice_of(query, view, found);
}

Result<Choice> Placer::place(const Request& request) {
  const std::span<const NodeId> nodes = ledger_->nodes();
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
    return fail(ErrorCode::kExhausted, "no node has room for it");
  }
  return choose(request, nodes[*best]);
}

Choice Placer::choice_of(const Query& query, const NodeView& view, const Pick& found) {
  const Request& request = *query.request;
  Choice choice;
  choice.node = view.id;
  choice.layout_version = ledger_->states().layout_version(view.id);
  choice.score = node_score(query, view, found, ledger_->options().unit);
  choice.share_gpus = found.share_gpus;
  choice.whole_gpus = found.whole_gpus;
  if (found.whole_gpus != 0) {
    choice.ring_mbps = found.set.ring_mbps;
    choice.ideal_ring_mbps = found.set.ideal_mbps;
  }
  add_share_grants(query, found, choice);
  if (request.shape.whole > 0) {
    add_whole_grants(query, view, choice);
  }
  std::ranges::sort(choice.grants, {}, [](const SlotGrant& g) { return std::pair(g.container, g.slot); });
  return choice;
}

void Placer::add_share_grants(const Query& query, const Pick& found, Choice& choice) const {
  const Request& request = *query.request;
  for (std::size_t i = 0; i < request.demand.containers.size(); ++i) {
    const SharePart share = part_of(request.demand.containers[i], request.split);
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
      choice.grants.push_back({.container = static_cast<std::uint8_t>(i),
                               .slot = static_cast<std::uint8_t>(slot),
                               .core_percent = share.core_percent,
                               .units = share.units});
    }
  }
}

// The pod's set is divided so that each container's part is again well connected.
void Placer::add_whole_grants(const Query& query, const NodeView& view, Choice& choice) {
  const Demand& demand = query.request->demand;
  std::vector<std::uint8_t> order;
  GpuMask rest = choice.whole_gpus;
  const auto next = [&](unsigned count) {
    const auto part = whole_sets_.choose(view, ledger_->machine(view.id), query.whole_policy, rest, count, 0);
    for (const unsigned slot : topology::GpuIndices(part ? part->gpus : 0)) {
      order.push_back(static_cast<std::uint8_t>(slot));
    }
    rest &= part ? ~part->gpus : rest;
  };
  for (const ContainerKind kind : {ContainerKind::kSidecar, ContainerKind::kMain}) {
    for (const ContainerRequest& container : demand.containers) {
      if (container.kind == kind && container.whole > 0) {
        next(container.whole);
      }
    }
  }
  for (const unsigned slot : topology::GpuIndices(rest)) {
    order.push_back(static_cast<std::uint8_t>(slot));
  }
  const auto split = demand.split_whole();
  for (std::size_t i = 0; i < split.size(); ++i) {
    for (const std::uint32_t which : split[i]) {
      choice.grants.push_back(
          {.container = static_cast<std::uint8_t>(i), .slot = order[which], .whole = true});
    }
  }
}

void scale_scores(std::span<const Score> scores, std::span<std::int64_t> scaled, std::int64_t most) {
  Score best = kDoesNotFit;
  Score worst = std::numeric_limits<Score>::max();
  for (const Score score : scores) {
    best = std::max(best, score);
    worst = score == kDoesNotFit ? worst : std::min(worst, score);
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] == kDoesNotFit) {
      scaled[i] = 0;
    } else if (scores[i] == best) {
      scaled[i] = most;
    } else {
      // A share of 0 .. most-1 by position between worst and best.
      const __int128 part = static_cast<__int128>(scores[i] - worst) * most / (best - worst);
      scaled[i] = std::min<std::int64_t>(static_cast<std::int64_t>(part), most - 1);
    }
  }
}

}  // namespace tessera::alloc
