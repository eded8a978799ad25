#include "sim/fragmentation.h"

#include <algorithm>

#include "sim/simulated_cluster.h"

namespace tessera::sim {

namespace {

constexpr std::size_t kMostSizes = kGpuMilli + 1;

}  // namespace

Fragmentation::Fragmentation(const std::vector<PodKind>& kinds, const alloc::Ledger& ledger) {
  for (const PodKind& kind : kinds) {
    weight_ += kind.count;
    if (kind.gpus == 0) {
      weight_without_gpus_ += kind.count;
      continue;
    }
    const auto same = std::ranges::find(sizes_, kind.gpu_milli);
    const auto size = static_cast<std::uint32_t>(same - sizes_.begin());
    if (same == sizes_.end()) {
      sizes_.push_back(kind.gpu_milli);
    }
    kinds_.push_back({.cpu_milli = kind.cpu_milli,
                      .gpus = kind.gpus,
                      .size = size,
                      .models = allowed_models(ledger, kind.models),
                      .count = kind.count});
  }
}

std::uint64_t Fragmentation::of(const alloc::NodeView& node) const {
  return after(node, 0, 0, 0);
}

std::uint64_t Fragmentation::after(const alloc::NodeView& node, alloc::GpuMask gpus, std::uint32_t milli,
                                   std::int64_t cpu_milli) const {
  Free free;
  std::ranges::copy(node.free, free.begin());
  for (const unsigned slot : topology::GpuIndices(gpus)) {
    free[slot] -= milli;
  }
  return sum(node, free, node.cpu_milli_left - cpu_milli);
}

std::uint64_t Fragmentation::sum(const alloc::NodeView& node, const Free& free,
                                 std::int64_t cpu_milli) const {
  std::uint64_t all = 0;
  for (unsigned slot = 0; slot < node.size(); ++slot) {
    all += free[slot];
  }
  if (all == 0) {
    return 0;
  }
  // For each size: the number of GPUs that have room for it, and the free capacity of all others.
  std::array<std::uint32_t, kMostSizes> roomy;  // only the first sizes_.size() are set
  std::array<std::uint64_t, kMostSizes> slivers;
  for (std::size_t size = 0; size < sizes_.size(); ++size) {
    roomy[size] = 0;
    slivers[size] = 0;
    for (unsigned slot = 0; slot < node.size(); ++slot) {
      const bool fits = free[slot] >= sizes_[size];
      roomy[size] += fits ? 1 : 0;
      slivers[size] += fits ? 0 : free[slot];
    }
  }
  std::uint64_t fragmented = weight_without_gpus_ * all;
  for (const Kind& kind : kinds_) {
    const bool can_run = cpu_milli >= kind.cpu_milli && roomy[kind.size] >= kind.gpus &&
                         (kind.models.empty() || kind.models[node.model[0]] != 0);
    fragmented += kind.count * (can_run ? slivers[kind.size] : all);
  }
  return fragmented;
}

}  // namespace tessera::sim
