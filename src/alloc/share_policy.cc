#include "alloc/share_policy.h"

#include <algorithm>
#include <limits>

namespace tessera::alloc {

namespace {

constexpr std::uint64_t kNoPlace = std::numeric_limits<std::uint64_t>::max();

// The free amounts of a node while a pod's parts are being tried on it.
struct Trial {
  std::array<std::uint32_t, topology::kMaxGpus> free;
  std::array<std::uint32_t, topology::kMaxGpus> core;
  GpuMask untouched = 0;  // wholly free, and none of the pod's parts on it yet

  explicit Trial(const NodeView& view) : untouched(view.whole_free) {
    std::ranges::copy(view.free, free.begin());
    std::ranges::copy(view.core_free, core.begin());
  }

  [[nodiscard]] bool fits(unsigned slot, const SharePart& share) const {
    return free[slot] >= share.units && core[slot] >= share.core_percent;
  }
  void take(GpuMask slots, const SharePart& share) {
    for (const unsigned slot : topology::GpuIndices(slots)) {
      free[slot] -= share.units;
      core[slot] -= share.core_percent;
    }
    untouched &= ~slots;
  }
};

struct Preference {
  bool spread = false;
  bool keep_whole_free = false;
};

// How much a GPU is to be avoided: smaller is better, and of equal ones the lowest slot.
std::uint64_t reluctance(const NodeView& view, const Trial& trial, unsigned slot, std::uint32_t units,
                         Preference preference) {
  const bool opens = (trial.untouched & topology::gpu_bit(slot)) != 0;
  const std::uint64_t damage = opens ? group_damage(view, topology::gpu_bit(slot)) : 0;
  const std::uint64_t fit = preference.spread ? std::numeric_limits<std::uint32_t>::max() - trial.free[slot]
                                              : trial.free[slot] - units;
  const std::uint64_t opening = opens && (!preference.spread || preference.keep_whole_free) ? 1 : 0;
  return opening << 48U | fit << 16U | damage;
}

// The best `share.gpus` GPUs of `may`, or none.
GpuMask best_slots(const NodeView& view, const Trial& trial, GpuMask may, const SharePart& share,
                   Preference preference) {
  GpuMask taken = 0;
  for (unsigned round = 0; round < share.gpus; ++round) {
    std::uint64_t least = kNoPlace;
    GpuMask best = 0;
    for (const unsigned slot : topology::GpuIndices(may & ~taken)) {
      if (trial.fits(slot, share)) {
        const std::uint64_t cost = reluctance(view, trial, slot, share.units, preference);
        best = cost < least ? topology::gpu_bit(slot) : best;
        least = std::min(least, cost);
      }
    }
    if (best == 0) {
      return 0;
    }
    taken |= best;
  }
  return taken;
}

// Tries parts one after the other, each on its best GPU first, and goes back when a later one finds no room.
// Packing is hard in general: the search is bounded, and gives up on what only a longer one would find.
class PartSearch {
 public:
  PartSearch(const Query& query, const NodeView& view, GpuMask may, Preference preference, Pick& pick)
      : query_(query), view_(view), may_(may), preference_(preference), pick_(pick) {}

  bool run(const Trial& trial, std::size_t part) {
    if (part == query_.parts.size()) {
      return true;
    }
    const SharePart& share = query_.parts[part].share;
    GpuMask tried = 0;
    while (budget_ > 0) {
      --budget_;
      const GpuMask slots = best_slots(view_, trial, may_ & ~tried, share, preference_);
      if (slots == 0) {
        return false;
      }
      Trial next = trial;
      next.take(slots, share);
      pick_.part_gpus[part] = slots;
      if (run(next, part + 1)) {
        return true;
      }
      tried |= slots & (~slots + 1);
    }
    return false;
  }

 private:
  const Query& query_;
  const NodeView& view_;
  GpuMask may_;
  Preference preference_;
  Pick& pick_;
  int budget_ = 2000;
};

// Init containers run before the others, beside the sidecars started before them. Each goes where it adds
// least to what the pod holds anyway.
bool pick_init(const Query& query, const NodeView& view, GpuMask may, Pick& pick) {
  std::array<std::uint32_t, topology::kMaxGpus> held{};      // by the pod at its peak
  std::array<std::uint32_t, topology::kMaxGpus> sidecars{};  // of that, by sidecars already running
  std::array<std::uint32_t, topology::kMaxGpus> sidecar_core{};
  for (std::size_t i = 0; i < query.parts.size(); ++i) {
    for (const unsigned slot : topology::GpuIndices(pick.part_gpus[i])) {
      held[slot] += query.parts[i].share.units;
    }
  }
  for (std::size_t i = 0; i < query.init_parts.size(); ++i) {
    const Part& part = query.init_parts[i];
    GpuMask& slots = pick.part_gpus[query.parts.size() + i];
    if (part.kind == ContainerKind::kSidecar) {
      // Placed among the parts; from here on it runs.
      for (std::size_t p = 0; p < query.parts.size(); ++p) {
        if (query.parts[p].container == part.container) {
          slots = pick.part_gpus[p];
        }
      }
      for (const unsigned slot : topology::GpuIndices(slots)) {
        sidecars[slot] += part.share.units;
        sidecar_core[slot] += part.share.core_percent;
      }
      continue;
    }
    slots = 0;
    for (unsigned round = 0; round < part.share.gpus; ++round) {
      std::uint64_t least = kNoPlace;
      GpuMask best = 0;
      for (const unsigned slot : topology::GpuIndices(may & ~slots)) {
        const std::uint64_t peak = std::uint64_t{sidecars[slot]} + part.share.units;
        if (peak > view.free[slot] || sidecar_core[slot] + part.share.core_percent > view.core_free[slot]) {
          continue;
        }
        const std::uint64_t raise = peak > held[slot] ? peak - held[slot] : 0;
        const std::uint64_t cost = raise << 24U | std::min<std::uint64_t>(view.free[slot], (1U << 24U) - 1);
        best = cost < least ? topology::gpu_bit(slot) : best;
        least = std::min(least, cost);
      }
      if (best == 0) {
        return false;
      }
      slots |= best;
      const unsigned slot = topology::lowest_gpu(best);
      held[slot] = std::max(held[slot], sidecars[slot] + part.share.units);
    }
  }
  return true;
}

void sum_up(const Query& query, const NodeView& view, Pick& pick) {
  pick.share_gpus = 0;
  pick.roomiest = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t taken = 0;
  for (std::size_t i = 0; i < query.parts.size(); ++i) {
    pick.share_gpus |= pick.part_gpus[i];
    taken += std::uint64_t{query.parts[i].share.units} * query.parts[i].share.gpus;
  }
  for (std::size_t i = 0; i < query.init_parts.size(); ++i) {
    pick.share_gpus |= pick.part_gpus[query.parts.size() + i];
  }
  std::uint64_t free = 0;
  for (const unsigned slot : topology::GpuIndices(pick.share_gpus)) {
    free += view.free[slot];
    pick.roomiest = std::min(pick.roomiest, view.free[slot]);
  }
  pick.leftover = free > taken ? free - taken : 0;
  const GpuMask opened = pick.share_gpus & view.whole_free;
  pick.opened = topology::gpu_count(opened);
  pick.damage = opened == 0 ? 0 : group_damage(view, opened);
}

}  // namespace

std::uint32_t group_damage(const NodeView& view, GpuMask opened) {
  // Machines beyond the exact tables are all behind switches, where every GPU is as good as another.
  if (view.tables == nullptr || !view.tables->exact()) {
    return 0;
  }
  const std::uint32_t before = view.tables->left_for_others(view.whole_free);
  const std::uint32_t after = view.tables->left_for_others(view.whole_free & ~opened);
  return before > after ? before - after : 0;
}

bool pick_shares(const Query& query, const NodeView& view, GpuMask may, bool keep_whole_free, Pick& pick) {
  const Preference preference{.spread = query.share_policy == Policy::kSpread,
                              .keep_whole_free = keep_whole_free};
  const Trial trial(view);
  if (query.parts.size() == 1) {
    pick.part_gpus[0] = best_slots(view, trial, may, query.parts.front().share, preference);
    if (pick.part_gpus[0] == 0) {
      return false;
    }
  } else if (!PartSearch(query, view, may, preference, pick).run(trial, 0)) {
    return false;
  }
  if (!query.init_parts.empty() && !pick_init(query, view, may, pick)) {
    return false;
  }
  sum_up(query, view, pick);
  return true;
}

}  // namespace tessera::alloc
