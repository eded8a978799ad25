#include "alloc/node_score.h"

#include "alloc/fgd.h"
#include "topology/bandwidth.h"

namespace tessera::alloc {

namespace {

// Widths of the criteria. Ring bandwidth is compared in steps of 64 MB/s, damage in steps of
// 1/4096.
constexpr unsigned kRingBits = 14;
constexpr unsigned kGpuBits = 7;
constexpr unsigned kUnitBits = 22;
constexpr unsigned kDamageBits = 12;
constexpr unsigned kGibBits = 10;
constexpr unsigned kPermilleBits = 10;
constexpr unsigned kFgdBits = 42;

std::uint64_t permille(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0 : part * 1000 / all;
}

std::uint64_t damage_steps(std::uint32_t damage) {
  return damage >> 4U;
}

// How well the whole GPUs are connected, as measured by the policy that chose them.
std::uint64_t connection(const Query& query, const NodeView& view, const GpuChoice& choice) {
  switch (query.whole_policy) {
    case Policy::kSimple:
      return 0;
    case Policy::kBestEffort:
      return static_cast<std::uint64_t>(topology::pair_sum(view.tables->topology(), choice.whole_gpus)) / 10;
    default:
      return choice.set.ring_mbps / 64;
  }
}

// Returns the mean memory of the chosen whole GPUs, in GiB. Less is better: large GPUs are left for
// shares, which can use their memory.
std::uint64_t gib_taken(const NodeView& view, const GpuChoice& choice, Unit unit) {
  std::uint64_t units = 0;
  for (const unsigned slot : topology::GpuIndices(choice.whole_gpus)) {
    units += view.total[slot];
  }
  return units * unit.in_mib() / 1024 / topology::gpu_count(choice.whole_gpus);
}

std::uint64_t gpus_left_whole(const NodeView& view, const GpuChoice& choice) {
  return topology::gpu_count(view.whole_free & ~choice.whole_gpus & ~choice.share_gpus);
}

Score whole_score(const Query& query, const NodeView& view, const GpuChoice& choice, Unit unit) {
  const std::uint32_t damage =
      choice.set.left_before > choice.set.left_after ? choice.set.left_before - choice.set.left_after : 0;
  Criteria criteria;
  criteria.most(connection(query, view, choice), kRingBits);
  if (choice.share_gpus != 0) {
    criteria.least(choice.opened, kGpuBits);
    criteria.least(choice.leftover, kUnitBits);
    criteria.least(gpus_left_whole(view, choice), kGpuBits);
    criteria.least(damage_steps(damage), kDamageBits);
    return criteria.score();
  }
  criteria.least(gpus_left_whole(view, choice), kGpuBits);
  criteria.least(damage_steps(damage), kDamageBits);
  criteria.least(gib_taken(view, choice, unit), kGibBits);
  criteria.least(permille(view.free_units, view.total_units), kPermilleBits);
  return criteria.score();
}

Score binpack_score(const NodeView& view, const GpuChoice& choice) {
  return Criteria()
      .least(choice.opened, kGpuBits)
      .least(choice.leftover, kUnitBits)
      .least(gpus_left_whole(view, choice), kGpuBits)
      .least(damage_steps(choice.damage), kDamageBits)
      .least(permille(view.free_units, view.total_units), kPermilleBits)
      .score();
}

Score spread_score(const NodeView& view, const GpuChoice& choice) {
  return Criteria()
      .most(choice.least_free, kUnitBits)
      .most(permille(view.free_units, view.total_units), kPermilleBits)
      .least(damage_steps(choice.damage), kDamageBits)
      .most(gpus_left_whole(view, choice), kGpuBits)
      .score();
}

// Scores nodes for a pod without GPUs, which happens only in the simulator. Prefers the node with
// the least free GPU memory and CPU.
Score gpuless_score(const NodeView& view) {
  const auto cpu = permille(static_cast<std::uint64_t>(view.cpu_milli_left),
                            static_cast<std::uint64_t>(view.cpu_milli_total));
  return Criteria().least(cpu + permille(view.free_units, view.total_units), kPermilleBits + 1).score();
}

}  // namespace

Score node_score(const Query& query, const NodeView& view, const GpuChoice& choice, Unit unit,
                 std::uint32_t order) {
  if (query.share_policy == Policy::kFgd) {
    const auto place = static_cast<std::uint64_t>(fgd_score(choice.level, order));
    const std::uint64_t links = choice.whole_gpus == 0 ? 0 : connection(query, view, choice);
    return Criteria().most(links, kRingBits).most(place, kFgdBits).score();
  }
  if (choice.whole_gpus != 0) {
    return whole_score(query, view, choice, unit);
  }
  if (choice.share_gpus == 0) {
    return gpuless_score(view);
  }
  return query.share_policy == Policy::kSpread ? spread_score(view, choice) : binpack_score(view, choice);
}

}  // namespace tessera::alloc
