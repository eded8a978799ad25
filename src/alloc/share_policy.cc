#include "alloc/share_policy.h"

#include <algorithm>
#include <limits>
#include <span>

namespace tessera::alloc {

namespace {

constexpr std::uint64_t kNoFit = std::numeric_limits<std::uint64_t>::max();

// The free capacity of a node while the parts of a pod are tried on it.
struct Room {
  std::span<const std::uint32_t> free;
  std::span<const std::uint16_t> core;
  GpuMask untouched = 0;  // wholly free, and not used by any part of the pod yet
};

// In which order GPUs are tried.
struct GpuOrder {
  bool spread = false;
  bool opens_last = false;  // use wholly free GPUs only if no other fits
};

// Returns, among wholly free GPUs with equal memory, the one whose loss costs well-connected groups
// least.
GpuMask least_missed(const NodeView& view, const Room& room, GpuMask may, std::uint32_t free) {
  GpuMask best = 0;
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  for (const unsigned slot : topology::GpuIndices(may & room.untouched)) {
    if (room.free[slot] == free) {
      const std::uint32_t damage = group_damage(view, topology::gpu_bit(slot));
      best = damage < least ? topology::gpu_bit(slot) : best;
      least = std::min(least, damage);
    }
  }
  return best;
}

// Returns the best GPU of `may`, or 0 if none fits. Packs the criteria of each GPU into one number
// and takes the smallest. The criteria, most important first: whether it is wholly free (only with
// opens_last); free memory (for spread inverted); wholly free; slot. The loop has no branches:
// which GPUs fit is unpredictable, and mispredicted branches would take most of the time.
GpuMask best_slot(const NodeView& view, const Room& room, GpuMask may, const SharePart& share,
                  GpuOrder order) {
  const std::uint32_t* free = room.free.data();
  const std::uint16_t* core = room.core.data();
  const std::uint32_t flip = order.spread ? std::numeric_limits<std::uint32_t>::max() : 0;
  const unsigned opens_last = order.opens_last ? 1 : 0;
  std::uint64_t least = kNoFit;
  for (unsigned slot = 0; slot < view.size(); ++slot) {
    const auto fits = static_cast<std::uint64_t>(free[slot] >= share.units) &
                      static_cast<std::uint64_t>(core[slot] >= share.core_percent) & (may >> slot);
    const std::uint64_t opens = room.untouched >> slot & 1U;
    const std::uint64_t cost =
        (opens & opens_last) << 40U | std::uint64_t{free[slot] ^ flip} << 8U | opens << 7U | slot;
    least = std::min(least, cost | ((fits & 1U) - 1));  // all ones if it does not fit
  }
  if (least == kNoFit) {
    return 0;
  }
  const auto slot = static_cast<unsigned>(least & 63U);
  const bool opens = (room.untouched >> slot & 1U) != 0;
  return opens ? least_missed(view, room, may, free[slot]) : topology::gpu_bit(slot);
}

// Returns the best `share.gpus` GPUs of `may`, or 0.
GpuMask best_slots(const NodeView& view, const Room& room, GpuMask may, const SharePart& share,
                   GpuOrder order) {
  GpuMask taken = 0;
  for (unsigned round = 0; round < share.gpus; ++round) {
    const GpuMask best = best_slot(view, room, may & ~taken, share, order);
    if (best == 0) {
      return 0;
    }
    taken |= best;
  }
  return taken;
}

// A copy of the free capacity, from which parts are taken.
struct Trial {
  std::array<std::uint32_t, topology::kMaxGpus> free;
  std::array<std::uint16_t, topology::kMaxGpus> core;
  GpuMask untouched = 0;

  explicit Trial(const NodeView& view) : untouched(view.whole_free) {
    std::ranges::copy(view.free, free.begin());
    std::ranges::copy(view.core_free, core.begin());
  }
  [[nodiscard]] Room room() const { return {.free = free, .core = core, .untouched = untouched}; }
  void take(GpuMask slots, const SharePart& share) {
    for (const unsigned slot : topology::GpuIndices(slots)) {
      free[slot] -= share.units;
      core[slot] = static_cast<std::uint16_t>(core[slot] - share.core_percent);
    }
    untouched &= ~slots;
  }
  // Reverts take(). `before` is what `untouched` was before it.
  void give_back(GpuMask slots, const SharePart& share, GpuMask before) {
    for (const unsigned slot : topology::GpuIndices(slots)) {
      free[slot] += share.units;
      core[slot] = static_cast<std::uint16_t>(core[slot] + share.core_percent);
    }
    untouched = before;
  }
};

// Places the parts one after the other, the largest first. Tries the best GPU of each part first,
// and backtracks when a later part does not fit. Bin packing is NP-hard, so the number of steps is
// limited, and the search may miss a solution; Query::budget then says so.
class PartSearch {
 public:
  PartSearch(const Query& query, const NodeView& view, GpuMask may, GpuOrder order, GpuChoice& choice)
      : query_(query), view_(view), may_(may), order_(order), choice_(choice), trial_(view) {}

  bool run() { return may_suffice(0) && place(0, 0); }

 private:
  // Places `part` and all later parts. Skips `failed`: GPUs that failed for the previous part, while
  // everything before that one was placed as it is now.
  bool place(std::size_t part, GpuMask failed) {
    if (part == query_.parts.size()) {
      return true;
    }
    if (tried_all_once() && !may_suffice(part)) {
      return false;
    }
    const SharePart& share = query_.parts[part].share;
    // If this part equals the previous one, exchanging the GPUs of the two makes no difference.
    const bool repeats = part > 0 && share.gpus == 1 && query_.parts[part - 1].share == share;
    GpuMask tried = repeats ? failed : 0;
    while (true) {
      const GpuMask slots = best_slots(view_, trial_.room(), may_ & ~tried, share, order_);
      if (slots == 0 || !take_step()) {
        return false;
      }
      const GpuMask untouched = trial_.untouched;
      trial_.take(slots, share);
      choice_.part_gpus[part] = slots;
      if (place(part + 1, tried)) {
        return true;
      }
      trial_.give_back(slots, share, untouched);
      tried |= share.gpus == 1 ? equal_to(topology::lowest_gpu(slots)) : slots & (~slots + 1);
    }
  }

  [[nodiscard]] bool tried_all_once() const { return steps_ > query_.parts.size(); }

  bool take_step() {
    ++steps_;
    if (!tried_all_once()) {
      return true;
    }
    if (steps_ > SearchBudget::kStepsPerNode) {
      query_.budget->end();
      return false;
    }
    return query_.budget->take();
  }

  // Returns the GPUs that have as much free as this one: if one fails for a part, all do.
  [[nodiscard]] GpuMask equal_to(unsigned slot) const {
    GpuMask equal = 0;
    for (const unsigned other : topology::GpuIndices(may_)) {
      const bool same = trial_.free[other] == trial_.free[slot] && trial_.core[other] == trial_.core[slot];
      equal |= same ? topology::gpu_bit(other) : 0;
    }
    return equal;
  }

  // Counts how often each size fits on the GPUs. If the parts from `first` on that are at least as
  // large are more, they cannot all fit.
  [[nodiscard]] bool may_suffice(std::size_t first) const {
    std::uint64_t wanted = 0;
    for (std::size_t i = first; i < query_.parts.size(); ++i) {
      const SharePart& share = query_.parts[i].share;
      wanted += share.gpus;
      const bool last_of_size =
          i + 1 == query_.parts.size() || query_.parts[i + 1].share.units != share.units;
      if (!last_of_size) {
        continue;
      }
      std::uint64_t times = 0;
      for (const unsigned slot : topology::GpuIndices(may_)) {
        times += trial_.free[slot] / share.units;
      }
      if (times < wanted) {
        return false;
      }
    }
    return true;
  }

  const Query& query_;
  const NodeView& view_;
  GpuMask may_;
  GpuOrder order_;
  GpuChoice& choice_;
  Trial trial_;
  std::size_t steps_ = 0;
};

// Init containers run before the main containers, together with the sidecars that were started
// before them. Each gets the GPU where it adds least to what the pod already holds.
bool choose_init(const Query& query, const NodeView& view, GpuMask may, GpuChoice& choice) {
  std::array<std::uint32_t, topology::kMaxGpus> held{};      // what the pod holds at its peak
  std::array<std::uint32_t, topology::kMaxGpus> sidecars{};  // what the running sidecars hold of it
  std::array<std::uint32_t, topology::kMaxGpus> sidecar_core{};
  for (std::size_t i = 0; i < query.parts.size(); ++i) {
    for (const unsigned slot : topology::GpuIndices(choice.part_gpus[i])) {
      held[slot] += query.parts[i].share.units;
    }
  }
  for (std::size_t i = 0; i < query.init_parts.size(); ++i) {
    const Part& part = query.init_parts[i];
    GpuMask& slots = choice.part_gpus[query.parts.size() + i];
    if (part.kind == ContainerKind::kSidecar) {
      // A sidecar is also in query.parts, so its GPUs are already chosen. It runs from here on.
      for (std::size_t p = 0; p < query.parts.size(); ++p) {
        if (query.parts[p].container == part.container) {
          slots = choice.part_gpus[p];
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
      std::uint64_t least = kNoFit;
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

void sum_up(const Query& query, const NodeView& view, GpuChoice& choice) {
  choice.share_gpus = 0;
  choice.least_free = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t taken = 0;
  for (std::size_t i = 0; i < query.parts.size(); ++i) {
    choice.share_gpus |= choice.part_gpus[i];
    taken += std::uint64_t{query.parts[i].share.units} * query.parts[i].share.gpus;
  }
  for (std::size_t i = 0; i < query.init_parts.size(); ++i) {
    choice.share_gpus |= choice.part_gpus[query.parts.size() + i];
  }
  std::uint64_t free = 0;
  for (const unsigned slot : topology::GpuIndices(choice.share_gpus)) {
    free += view.free[slot];
    choice.least_free = std::min(choice.least_free, view.free[slot]);
  }
  choice.leftover = free > taken ? free - taken : 0;
  const GpuMask opened = choice.share_gpus & view.whole_free;
  choice.opened = topology::gpu_count(opened);
  choice.damage = opened == 0 ? 0 : group_damage(view, opened);
}

}  // namespace

std::uint32_t group_damage(const NodeView& view, GpuMask opened) {
  // Machines that are too large for exact tables have NVSwitches, where all GPUs are equal.
  if (view.tables == nullptr || !view.tables->exact()) {
    return 0;
  }
  const std::uint32_t before = view.tables->left_for_others(view.whole_free);
  const std::uint32_t after = view.tables->left_for_others(view.whole_free & ~opened);
  return before > after ? before - after : 0;
}

bool choose_shares(const Query& query, const NodeView& view, GpuMask may, bool keep_whole_free,
                   GpuChoice& choice) {
  const bool spread = query.share_policy == Policy::kSpread;
  const GpuOrder order{.spread = spread, .opens_last = !spread || keep_whole_free};
  if (query.parts.size() == 1) {
    const Room room{.free = view.free, .core = view.core_free, .untouched = view.whole_free};
    choice.part_gpus[0] = best_slots(view, room, may, query.parts.front().share, order);
    if (choice.part_gpus[0] == 0) {
      return false;
    }
  } else if (!PartSearch(query, view, may, order, choice).run()) {
    return false;
  }
  if (!query.init_parts.empty() && !choose_init(query, view, may, choice)) {
    return false;
  }
  sum_up(query, view, choice);
  return true;
}

bool has_room(const NodeView& view, GpuMask may, const SharePart& share) {
  unsigned fitting = 0;
  for (unsigned slot = 0; slot < view.size(); ++slot) {
    const bool fits = view.free[slot] >= share.units && view.core_free[slot] >= share.core_percent;
    fitting += fits ? static_cast<unsigned>(may >> slot & 1U) : 0;
  }
  return fitting >= share.gpus;
}

}  // namespace tessera::alloc
