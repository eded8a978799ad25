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

namespace {

bool fits(const NodeView& view, unsigned slot, const GpuShare& share) {
  if (share.whole) {
    return (view.whole_free & topology::gpu_bit(slot)) != 0;
  }
  return share.units <= view.free[slot] && share.core_percent <= view.core_free[slot];
}

}  // namespace

Result<Hold> Ledger::reserve(const PodKey& key, const Request& request, const Choice& choice) {
  if (by_uid_.contains(key.uid)) {
    return fail(ErrorCode::kConflict, fmt::format("pod {} already holds GPUs", key.text()));
  }
  const bool node_is_there = raw(choice.node) < nodes_.size() && nodes_[raw(choice.node)].present;
  if (!node_is_there || states_.layout_version(choice.node) != choice.layout_version ||
      (request.gpus.any() && states_.fence(choice.node) != Fence::kOpen)) {
    return fail(ErrorCode::kConflict, "the node's GPUs changed since the choice was made");
  }
  // A choice that differs from the request is a bug; it must not get into the ledger.
  std::vector<GpuShare> shares =
      TRY(with_context(held_shares(request.gpus, choice.record), "choice for pod " + key.text()));
  const NodeView view = states_.view(choice.node);
  const Node& node = nodes_[raw(choice.node)];
  for (const GpuShare& share : shares) {
    const auto slot = static_cast<unsigned>(
        std::ranges::find(node.gpus, GpuUuid(share.gpu), &LedgerGpu::uuid) - node.gpus.begin());
    if (slot == node.gpus.size()) {
      return fail(ErrorCode::kConflict, fmt::format("node {} has no GPU {}", node.name, share.gpu));
    }
    if (!fits(view, slot, share)) {
      return fail(ErrorCode::kConflict, fmt::format("GPU {} of node {} was taken since the choice was made",
                                                    node.gpus[slot].index, node.name));
    }
  }

  const PodId id = add_pod(key);
  Pod& pod = pods_[id];
  pod.state = PodState::kReserved;
  pod.units = static_cast<std::uint32_t>(request.gpus.units);
  pod.core_percent = static_cast<std::uint32_t>(request.gpus.core_percent);
  pod.whole = static_cast<std::uint32_t>(request.gpus.whole);
  pod.node_use = request.shape.node;
  for (GpuShare& share : shares) {
    pod.shares.push_back({.share = std::move(share)});
  }
  attach(id, choice.node);
  return Hold(this, id, pod.generation);
}

}  // namespace tessera::alloc
