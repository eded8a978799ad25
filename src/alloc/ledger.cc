#include "alloc/ledger.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/strings.h"

namespace tessera::alloc {

Ledger::Ledger(Options options) : options_(std::move(options)) {}

Hold::Hold(Hold&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)), pod_(other.pod_), generation_(other.generation_) {}

Hold& Hold::operator=(Hold&& other) noexcept {
  if (this != &other) {
    release();
    ledger_ = std::exchange(other.ledger_, nullptr);
    pod_ = other.pod_;
    generation_ = other.generation_;
  }
  return *this;
}

void Hold::commit() {
  if (Ledger* ledger = std::exchange(ledger_, nullptr)) {
    ledger->commit(pod_, generation_);
  }
}

void Hold::release() {
  if (Ledger* ledger = std::exchange(ledger_, nullptr)) {
    ledger->release(pod_, generation_);
  }
}

void Ledger::commit(PodId id, std::uint32_t generation) {
  Pod& pod = pods_[id];
  if (pod.generation == generation && pod.state == PodState::kReserved) {
    pod.state = PodState::kAssumed;
  }
}

void Ledger::release(PodId id, std::uint32_t generation) {
  const Pod& pod = pods_[id];
  if (pod.generation == generation && pod.state == PodState::kReserved) {
    drop_pod(id);
  }
}

Absence Ledger::without(std::span<const std::string_view> uids) {
  Absence absence(this);
  for (const std::string_view uid : uids) {
    const auto found = by_uid_.find(uid);
    if (found == by_uid_.end() || std::ranges::find(absence.pods_, found->second) != absence.pods_.end()) {
      continue;
    }
    Pod& pod = pods_[found->second];
    unsettle(pod);
    states_.leave_node(pod.node, pod.node_use.cpu_milli, pod.node_use.memory_bytes);
    absence.pods_.push_back(found->second);
  }
  return absence;
}

Absence::~Absence() {
  if (ledger_ == nullptr) {
    return;
  }
  for (const std::uint32_t id : pods_) {
    Ledger::Pod& pod = ledger_->pods_[id];
    ledger_->states_.use_node(pod.node, pod.node_use.cpu_milli, pod.node_use.memory_bytes);
    ledger_->settle(pod);
  }
}

Record Ledger::record_of(const Request& request, const Choice& choice) const {
  const std::span<const GpuFacts> gpus = nodes_[raw(choice.node)].gpus;
  Record record;
  for (std::size_t i = 0; i < request.demand.containers.size(); ++i) {
    ContainerGrants given{.container = request.demand.containers[i].name, .grants = {}};
    for (const SlotGrant& grant : choice.grants) {
      if (grant.container == i) {
        given.grants.push_back({.gpu = gpus[grant.slot].uuid.text(),
                                .units = grant.units,
                                .core_percent = grant.core_percent,
                                .whole = grant.whole});
      }
    }
    record.containers.push_back(std::move(given));
  }
  return record;
}

namespace {

bool fits(const NodeView& view, unsigned slot, const Claim& claim) {
  if (claim.whole) {
    return (view.whole_free & topology::gpu_bit(slot)) != 0;
  }
  return claim.units <= view.free[slot] && claim.core_percent <= view.core_free[slot];
}

}  // namespace

Result<Hold> Ledger::reserve(const PodKey& key, const Request& request, const Choice& choice) {
  if (by_uid_.contains(key.uid)) {
    return fail(ErrorCode::kConflict, fmt::format("pod {} already holds GPUs", key.text()));
  }
  const bool node_is_there = raw(choice.node) < nodes_.size() && nodes_[raw(choice.node)].present;
  if (!node_is_there || states_.layout_version(choice.node) != choice.layout_version ||
      (request.demand.any() && states_.fence(choice.node) != Fence::kOpen)) {
    return fail(ErrorCode::kConflict, "the node's GPUs changed since the choice was made");
  }
  // A choice that does not give the pod what it asked for is our own mistake; it must not reach the books.
  std::vector<Claim> claims = TRY(
      with_context(claims_of(request.demand, record_of(request, choice)), "choice for pod " + key.text()));
  const NodeView view = states_.view(choice.node);
  const Node& node = nodes_[raw(choice.node)];
  for (const Claim& claim : claims) {
    const auto slot = static_cast<unsigned>(
        std::ranges::find(node.gpus, GpuUuid(claim.gpu), &GpuFacts::uuid) - node.gpus.begin());
    if (!fits(view, slot, claim)) {
      return fail(ErrorCode::kConflict, fmt::format("GPU {} of node {} was taken since the choice was made",
                                                    node.gpus[slot].index, node.name));
    }
  }

  const PodId id = add_pod(key);
  Pod& pod = pods_[id];
  pod.state = PodState::kReserved;
  pod.from_index = view.old_plugin;
  pod.units = static_cast<std::uint32_t>(request.demand.units);
  pod.core_percent = static_cast<std::uint32_t>(request.demand.core_percent);
  pod.whole = static_cast<std::uint32_t>(request.demand.whole);
  pod.node_use = request.shape.node;
  for (Claim& claim : claims) {
    pod.claims.push_back({.claim = std::move(claim)});
  }
  attach(id, choice.node);
  return Hold(this, id, pod.generation);
}

}  // namespace tessera::alloc
