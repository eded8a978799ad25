#include "alloc/fgd_policy.h"

#include <algorithm>
#include <array>

namespace tessera::alloc {

namespace {

FgdNode fgd_node(const NodeView& view) {
  return {.total = view.total,
          .free = view.free,
          .model = view.model,
          .whole_free = view.whole_free,
          .cpu_milli_left = view.cpu_milli_left};
}

std::vector<TypicalPod> pods_of(const std::vector<TypicalRequest>& typical, const Ledger& ledger) {
  std::vector<TypicalPod> pods;
  for (const TypicalRequest& request : typical) {
    const Shape& shape = request.shape;
    TypicalPod pod;
    // A request with shares and whole GPUs counts as whole GPUs, which are harder to find.
    pod.units = shape.whole > 0 ? 0 : shape.share.units;
    pod.gpus = shape.whole > 0 ? shape.whole : shape.share.gpus;
    pod.cpu_milli = shape.node.cpu_milli;
    pod.count = request.count;
    const std::vector<std::uint8_t> allowed = ledger.models_matching(request.models);
    for (std::size_t id = 0; id < allowed.size(); ++id) {
      if (allowed[id] != 0) {
        pod.models.push_back(static_cast<ModelId>(id));
      }
    }
    // No node has an allowed model, so there is nothing to keep free.
    if (request.models.empty() || !pod.models.empty()) {
      pods.push_back(std::move(pod));
    }
  }
  return pods;
}

}  // namespace

void FgdPolicy::set_typical(std::vector<TypicalRequest> typical) {
  typical_ = std::move(typical);
  fgd_.reset();
}

bool FgdPolicy::refresh() {
  if (fgd_ && inventory_version_ == ledger_->inventory_version()) {
    return false;
  }
  fgd_.emplace(pods_of(typical_, *ledger_));
  inventory_version_ = ledger_->inventory_version();
  std::vector<FgdNode> empty;
  for (const NodeId id : ledger_->nodes()) {
    const NodeView view = ledger_->view(id);
    if (ledger_->states().fence(id) == Fence::kOpen) {
      // Unhealthy GPUs count as well: they recover, and scarcity must not change with health.
      empty.push_back({.total = view.total,
                       .free = view.total,
                       .model = view.model,
                       .whole_free = topology::first_gpus(view.size()),
                       .cpu_milli_left = view.cpu_milli_total});
    }
  }
  fgd_->weigh(empty);
  return true;
}

std::optional<Fgd::Choice> FgdPolicy::choose_share(const NodeView& view, GpuMask may, const SharePart& share,
                                                   std::int64_t cpu_milli) const {
  GpuMask with_compute = may;
  for (unsigned slot = 0; slot < view.size(); ++slot) {
    with_compute &= view.core_free[slot] >= share.core_percent ? ~GpuMask{0} : ~topology::gpu_bit(slot);
  }
  return fgd_->choose_share(fgd_node(view), with_compute, share.units, share.gpus, cpu_milli);
}

std::int32_t FgdPolicy::level_of_whole(const NodeView& view, GpuMask taken, std::int64_t cpu_milli) const {
  return fgd_->level_of_whole(fgd_node(view), taken, cpu_milli);
}

std::int32_t FgdPolicy::level_of(const Query& query, const NodeView& view, const GpuChoice& choice) const {
  std::array<std::uint32_t, topology::kMaxGpus> free{};
  std::ranges::copy(view.free, free.begin());
  for (std::size_t i = 0; i < query.parts.size(); ++i) {
    for (const unsigned slot : topology::GpuIndices(choice.part_gpus[i])) {
      free[slot] -= std::min(free[slot], query.parts[i].share.units);
    }
  }
  for (const unsigned slot : topology::GpuIndices(choice.whole_gpus)) {
    free[slot] = 0;
  }
  FgdNode after = fgd_node(view);
  after.free = std::span(free).first(view.size());
  after.whole_free &= ~(choice.share_gpus | choice.whole_gpus);
  after.cpu_milli_left -= std::min(after.cpu_milli_left, query.request->shape.node.cpu_milli);
  return fgd_->level(fgd_node(view), after);
}

}  // namespace tessera::alloc
