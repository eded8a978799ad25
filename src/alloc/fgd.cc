#include "alloc/fgd.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace tessera::alloc {

namespace {

using topology::gpu_bit;
using topology::GpuMask;
using topology::kMaxGpus;

constexpr std::uint64_t kGpu = std::uint64_t{1000} << 16U;  // one GPU in 2^-16 thousandths
constexpr std::uint64_t kShares = std::uint64_t{1} << 16U;  // sum of the shares of all typical pods
// Upper limit of scarcity: 1 of 4,096 GPUs suits the pod.
constexpr std::uint64_t kMostScarce = 4096;
// Gains within 1/40 GPU count as equal.
constexpr std::int64_t kStep = static_cast<std::int64_t>(kGpu / 40 * kShares);
constexpr std::int32_t kMostLevels = 1 << 20;

// Real pods need more or less CPU than the typical one. So a GPU counts as stranded only if it
// would have less than two thirds of the CPU that the typical pod requests.
constexpr std::uint64_t kCpuSlack = (std::uint64_t{3} << 30U) / 2;
// Most copies of one size on one GPU when CPU is compared. It prevents overflow; no GPU reaches it.
constexpr std::uint32_t kMostCopies = 4096;
constexpr std::int64_t kMostCpu = std::int64_t{1} << 32U;  // four million CPUs

std::uint64_t per_unit(std::uint32_t total) {
  return total == 0 ? 0 : kGpu / total;
}

}  // namespace

// A copy of a node on which pods are tried: its free capacity, and how much of each size fits.
class Fgd::State {
 public:
  State(const Fgd& fgd, const FgdNode& node)
      : fgd_(fgd), node_(node), whole_free_(node.whole_free), cpu_(node.cpu_milli_left) {
    one_model_ = std::ranges::adjacent_find(node.model, std::not_equal_to<>()) == node.model.end();
    std::fill_n(room_.begin(), fgd.sizes_.size(), Room{});
    for (unsigned slot = 0; slot < node.total.size(); ++slot) {
      free_[slot] = std::min(node.free[slot], node.total[slot]);
      per_unit_[slot] = per_unit(node.total[slot]);
      free_sum_ += free_[slot] * per_unit_[slot];
      for (std::size_t size = 0; size < fgd.sizes_.size(); ++size) {
        add(room_[size], room_on(slot, fgd.sizes_[size]));
      }
    }
  }

  [[nodiscard]] unsigned gpus() const { return static_cast<unsigned>(node_.total.size()); }
  [[nodiscard]] std::uint32_t free(unsigned slot) const { return free_[slot]; }

  void take_cpu(std::int64_t cpu_milli) { cpu_ = std::max<std::int64_t>(0, cpu_ - cpu_milli); }

  void take_share(unsigned slot, std::uint32_t units) {
    change(slot, free_[slot] - units, whole_free_ & ~gpu_bit(slot));
  }
  void take_whole(unsigned slot) { change(slot, 0, whole_free_ & ~gpu_bit(slot)); }
  // Reverts take_share() or take_whole().
  void restore(unsigned slot, std::uint32_t free, bool whole) {
    change(slot, free, whole ? whole_free_ | gpu_bit(slot) : whole_free_);
  }
  [[nodiscard]] bool is_whole(unsigned slot) const { return (whole_free_ & gpu_bit(slot)) != 0; }

  // Whether one of `others` is equal to this GPU, so that taking either has the same effect.
  [[nodiscard]] bool has_equal(unsigned slot, GpuMask others) const {
    for (const unsigned other : topology::GpuIndices(others)) {
      if (free_[slot] == free_[other] && node_.total[slot] == node_.total[other] &&
          node_.model[slot] == node_.model[other] && is_whole(slot) == is_whole(other)) {
        return true;
      }
    }
    return false;
  }

  // Returns the free capacity that typical pods cannot use, times their weight.
  [[nodiscard]] std::int64_t fragmentation() const {
    const std::int64_t cpu = std::min(cpu_, kMostCpu);
    std::uint64_t useful = 0;
    for (const Typical& typical : fgd_.typical_) {
      if (typical.cpu_milli > cpu) {
        break;
      }
      useful += typical.weight * usable(typical, static_cast<std::uint64_t>(cpu));
    }
    return static_cast<std::int64_t>(free_sum_ * fgd_.total_weight_ - useful);
  }

  // Returns the GPUs that the typical pod could use, ignoring CPU; 0 if there are too few for it.
  [[nodiscard]] std::uint32_t gpus_for(const Typical& typical) const {
    const std::uint32_t gpus = room_for(typical).gpus;
    return gpus < typical.gpus ? 0 : gpus;
  }

 private:
  // Returns the capacity that as many typical pods of this kind as fit could use together.
  [[nodiscard]] std::uint64_t usable(const Typical& typical, std::uint64_t cpu) const {
    const Room room = room_for(typical);
    if (room.gpus < typical.gpus) {
      return 0;
    }
    if (typical.cpu_milli == 0) {
      return room.usable;
    }
    const std::uint64_t with_cpu = (cpu * typical.pods_per_cpu >> 20U) * typical.gpus;  // times 2^10
    const std::uint64_t wanted = std::uint64_t{room.copies} << 10U;
    return with_cpu >= wanted ? room.usable : room.usable * with_cpu / wanted;
  }

  static void add(Room& room, const Room& more) {
    room.gpus += more.gpus;
    room.copies += more.copies;
    room.usable += more.usable;
  }
  static void subtract(Room& room, const Room& less) {
    room.gpus -= less.gpus;
    room.copies -= less.copies;
    room.usable -= less.usable;
  }

  [[nodiscard]] Room room_on(unsigned slot, const Size& size) const {
    if (size.units == 0) {
      return is_whole(slot) ? Room{1, 1, free_[slot] * per_unit_[slot]} : Room{};
    }
    const std::uint32_t copies = free_[slot] / size.units;
    return copies == 0
               ? Room{}
               : Room{1, std::min(copies, kMostCopies), std::uint64_t{copies} * size.units * per_unit_[slot]};
  }

  [[nodiscard]] Room room_for(const Typical& typical) const {
    if (typical.models < 0 || (one_model_ && !node_.model.empty() && fgd_.allows(typical, node_.model[0]))) {
      return room_[typical.size];
    }
    Room room;
    if (!one_model_) {
      for (unsigned slot = 0; slot < node_.total.size(); ++slot) {
        if (fgd_.allows(typical, node_.model[slot])) {
          add(room, room_on(slot, fgd_.sizes_[typical.size]));
        }
      }
    }
    return room;
  }

  void change(unsigned slot, std::uint32_t free, GpuMask whole_free) {
    for (std::size_t size = 0; size < fgd_.sizes_.size(); ++size) {
      subtract(room_[size], room_on(slot, fgd_.sizes_[size]));
    }
    free_sum_ -= free_[slot] * per_unit_[slot];
    free_[slot] = free;
    whole_free_ = whole_free;
    free_sum_ += free_[slot] * per_unit_[slot];
    for (std::size_t size = 0; size < fgd_.sizes_.size(); ++size) {
      add(room_[size], room_on(slot, fgd_.sizes_[size]));
    }
  }

  const Fgd& fgd_;
  const FgdNode& node_;
  GpuMask whole_free_;
  std::int64_t cpu_;
  bool one_model_ = true;
  std::uint64_t free_sum_ = 0;
  std::array<std::uint32_t, kMaxGpus> free_;
  std::array<std::uint64_t, kMaxGpus> per_unit_;
  std::array<Room, kMostTypical> room_;  // by size; only the first sizes_.size() are set
};

Fgd::Fgd(std::span<const TypicalPod> typical) {
  std::vector<const TypicalPod*> frequent;
  for (const TypicalPod& pod : typical) {
    if (pod.gpus > 0 && pod.gpus <= kMaxGpus && pod.count > 0) {
      frequent.push_back(&pod);
    }
  }
  std::ranges::sort(frequent, [](const TypicalPod* a, const TypicalPod* b) {
    return std::tie(b->count, a->units, a->gpus, a->cpu_milli, a->models) <
           std::tie(a->count, b->units, b->gpus, b->cpu_milli, b->models);
  });
  frequent.resize(std::min(frequent.size(), kMostTypical));

  unsigned __int128 all = 0;
  for (const TypicalPod* pod : frequent) {
    all += pod->count;
  }
  for (const TypicalPod* pod : frequent) {
    const auto same_size = std::ranges::find(sizes_, pod->units, &Size::units);
    const auto size = static_cast<std::uint32_t>(same_size - sizes_.begin());
    if (same_size == sizes_.end()) {
      sizes_.push_back(Size{pod->units});
    }
    const std::int64_t cpu = std::max<std::int64_t>(0, pod->cpu_milli);
    Typical& added = typical_.emplace_back();
    added.cpu_milli = cpu;
    added.pods_per_cpu = kCpuSlack / static_cast<std::uint64_t>(std::max<std::int64_t>(1, cpu));
    added.size = size;
    added.gpus = pod->gpus;
    added.share = static_cast<std::uint64_t>(pod->count * static_cast<unsigned __int128>(kShares) / all);
    added.weight = added.share;
    total_weight_ += added.weight;
    if (!pod->models.empty()) {
      added.models = static_cast<std::int32_t>(model_sets_.size());
      std::vector<std::uint8_t>& set = model_sets_.emplace_back();
      for (const std::uint16_t model : pod->models) {
        set.resize(std::max<std::size_t>(set.size(), model + std::size_t{1}));
        set[model] = 1;
      }
    }
  }
  std::ranges::sort(typical_, {}, &Typical::cpu_milli);
}

void Fgd::weigh(std::span<const FgdNode> empty_nodes) {
  std::uint64_t everything = 0;
  std::vector<std::uint64_t> usable(typical_.size());
  for (const FgdNode& node : empty_nodes) {
    everything += node.total.size();
    const State state(*this, node);
    for (std::size_t i = 0; i < typical_.size(); ++i) {
      if (typical_[i].cpu_milli <= node.cpu_milli_left) {
        usable[i] += state.gpus_for(typical_[i]);
      }
    }
  }
  total_weight_ = 0;
  for (std::size_t i = 0; i < typical_.size(); ++i) {
    Typical& typical = typical_[i];
    typical.weight = usable[i] == 0
                         ? typical.share
                         : std::min(typical.share * everything / usable[i], typical.share * kMostScarce);
    total_weight_ += typical.weight;
  }
}

std::optional<Fgd::Choice> Fgd::choose_share(const FgdNode& node, GpuMask may, std::uint32_t units,
                                             unsigned gpus, std::int64_t cpu_milli) const {
  State state(*this, node);
  const std::int64_t before = state.fragmentation();
  state.take_cpu(cpu_milli);
  Choice choice;
  for (unsigned round = 0; round < gpus; ++round) {
    std::optional<unsigned> best;
    GpuMask tried = 0;
    for (const unsigned slot :
         topology::GpuIndices(may & topology::first_gpus(state.gpus()) & ~choice.gpus)) {
      if (state.free(slot) < units || state.has_equal(slot, tried)) {
        continue;
      }
      tried |= gpu_bit(slot);
      const bool whole = state.is_whole(slot);
      const std::uint32_t free = state.free(slot);
      state.take_share(slot, units);
      const std::int32_t reached = level_between(before, state.fragmentation());
      state.restore(slot, free, whole);
      if (!best || reached > choice.level || (reached == choice.level && free < state.free(*best))) {
        best = slot;
        choice.level = reached;
      }
    }
    if (!best) {
      return std::nullopt;
    }
    choice.gpus |= gpu_bit(*best);
    state.take_share(*best, units);
  }
  return choice;
}

std::int32_t Fgd::level_of_whole(const FgdNode& node, GpuMask taken, std::int64_t cpu_milli) const {
  State state(*this, node);
  const std::int64_t before = state.fragmentation();
  state.take_cpu(cpu_milli);
  for (const unsigned slot : topology::GpuIndices(taken & topology::first_gpus(state.gpus()))) {
    state.take_whole(slot);
  }
  return level_between(before, state.fragmentation());
}

std::int32_t Fgd::level(const FgdNode& before, const FgdNode& after) const {
  return level_between(State(*this, before).fragmentation(), State(*this, after).fragmentation());
}

bool Fgd::allows(const Typical& typical, std::uint16_t model) const {
  if (typical.models < 0) {
    return true;
  }
  const std::vector<std::uint8_t>& set = model_sets_[static_cast<std::size_t>(typical.models)];
  return model < set.size() && set[model] != 0;
}

std::int32_t Fgd::level_between(std::int64_t before, std::int64_t after) {
  const std::int64_t gain = before - after;
  const std::int64_t steps = gain >= 0 ? gain / kStep : -((-gain + kStep - 1) / kStep);
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(steps, -kMostLevels, kMostLevels));
}

std::int64_t fgd_score(std::int32_t level, std::uint32_t order) {
  return (static_cast<std::int64_t>(level) + kMostLevels) << 20U | (order >> 12U);
}

std::uint32_t stable_order(std::string_view node_name) {
  // FNV-1a, then mixed, so that names that differ only in their last digits are not adjacent.
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : node_name) {
    hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3U;
  }
  hash = (hash ^ hash >> 30U) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ hash >> 27U) * 0x94d049bb133111ebU;
  return static_cast<std::uint32_t>(hash >> 32U);
}

}  // namespace tessera::alloc
