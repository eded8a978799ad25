#include "topology/set_search.h"

#include <algorithm>
#include <tuple>

#include "topology/partition_table.h"
#include "topology/wide_search.h"

namespace tessera::topology {

// The search of choose_ring on exact() machines. All criteria of a set are packed into one number,
// in the order of the comment on choose_ring.
class RingScan {
 public:
  static GpuMask run(const SetTables& tables, const SetQuery& query) {
    const auto free = static_cast<std::uint32_t>(query.free);
    const auto required = static_cast<std::uint32_t>(query.required);
    const auto shared = static_cast<std::uint32_t>(query.shared) & free;
    std::uint32_t chosen = 0;
    std::uint64_t best = 0;
    std::uint8_t level = 0;
    for (const SetTables::SetEntry& entry : tables.by_count_[query.count]) {
      const std::uint32_t set = entry.set;
      if ((set & ~free) != 0 || (required & ~set) != 0) {
        continue;
      }
      if (chosen != 0 && entry.ring_level < level) {
        break;  // sets are sorted by ring, best first
      }
      level = entry.ring_level;
      // Counting bits is the most expensive step here, and usually nothing is shared.
      const unsigned taken = shared == 0 ? 0 : gpu_count(set & shared);
      const std::uint64_t worth = pack(tables.rest_merit_[free & ~set], entry, kExactGpus - taken);
      if (chosen == 0 || worth > best) {  // sets of one level are ascending: the smallest mask wins
        best = worth;
        chosen = set;
      }
    }
    return chosen;
  }

 private:
  // 16 + 5 + 8 + 15 + 11 + 9 bits. 16 GPUs have a pair sum of at most 22,320 tens, and their blocks
  // count less than 1,024 (locality.h).
  static std::uint64_t pack(const SetTables::RestMerit& rest, const SetTables::SetEntry& set,
                            std::uint64_t unshared) {
    return (std::uint64_t{rest.left} << 48U) | (unshared << 43U) | (std::uint64_t{set.locality} << 35U) |
           (std::uint64_t{set.pair_tens} << 20U) | (std::uint64_t{rest.blocks} << 9U) | (set.blocks / 2U);
  }
};

namespace {

SetQuery within(const SetTables& tables, const SetQuery& query) {
  SetQuery clipped = query;
  clipped.free &= tables.topology().all();
  return clipped;
}

// Returns the candidate that Prim's algorithm adds to `set`.
unsigned nearest(const SetTables& tables, const SetQuery& query, GpuMask set) {
  const GpuMask candidates = query.free & ~set;
  unsigned best = lowest_gpu(candidates);
  std::tuple<Mbps, std::uint64_t, bool> nearest{};
  for (const unsigned gpu : GpuIndices(candidates)) {
    Mbps fastest = 0;
    std::uint64_t sum = 0;
    for (const unsigned member : GpuIndices(set)) {
      fastest = std::max(fastest, tables.pair_mbps(gpu, member));
      sum += tables.pair_mbps(gpu, member);
    }
    const std::tuple<Mbps, std::uint64_t, bool> rank{fastest, sum, (query.shared & gpu_bit(gpu)) == 0};
    if (rank > nearest) {
      nearest = rank;
      best = gpu;
    }
  }
  return best;
}

}  // namespace

bool can_choose(const SetTables& tables, const SetQuery& query) {
  const GpuMask free = query.free & tables.topology().all();
  return query.count > 0 && query.count <= gpu_count(free) && gpu_count(query.required) <= query.count &&
         (query.required & ~free) == 0;
}

SetChoice describe_choice(const SetTables& tables, const SetQuery& query, GpuMask gpus) {
  const GpuMask free = query.free & tables.topology().all();
  const Mbps ring = tables.ring_mbps(gpus);
  return SetChoice{.gpus = gpus,
                   .ring_mbps = ring,
                   .ideal_mbps = std::max(ring, tables.ideal_mbps(gpu_count(gpus))),
                   .left_before = tables.left_for_others(free),
                   .left_after = tables.left_for_others(free & ~gpus),
                   .exact = tables.exact()};
}

std::optional<SetChoice> choose_ring(const SetTables& tables, const SetQuery& query) {
  if (!can_choose(tables, query)) {
    return std::nullopt;
  }
  const SetQuery clipped = within(tables, query);
  StepBudget budget(kWideSteps);
  return describe_choice(
      tables, query, tables.exact() ? RingScan::run(tables, clipped) : wide_ring(tables, clipped, budget));
}

std::optional<SetChoice> choose_best_effort(const SetTables& tables, const SetQuery& query) {
  if (!can_choose(tables, query)) {
    return std::nullopt;
  }
  const SetQuery clipped = within(tables, query);
  return describe_choice(tables, query,
                         tables.exact()
                             ? tables.partitions(query.count).choose(clipped.free, clipped.required)
                             : wide_best_effort(tables, clipped));
}

std::optional<SetChoice> choose_prim(const SetTables& tables, const SetQuery& query) {
  if (!can_choose(tables, query)) {
    return std::nullopt;
  }
  const SetQuery clipped = within(tables, query);
  GpuMask gpus = clipped.required;
  if (gpus == 0) {
    // The ring of two GPUs is their link, so the best ring of two is the closest pair.
    SetQuery seed = clipped;
    seed.count = std::min(2U, clipped.count);
    gpus = choose_ring(tables, seed)->gpus;
  }
  while (gpu_count(gpus) < clipped.count) {
    gpus |= gpu_bit(nearest(tables, clipped, gpus));
  }
  return describe_choice(tables, query, gpus);
}

std::optional<SetChoice> choose_simple(const SetTables& tables, const SetQuery& query) {
  if (!can_choose(tables, query)) {
    return std::nullopt;
  }
  const SetQuery clipped = within(tables, query);
  GpuMask gpus = clipped.required;
  for (GpuMask rest = clipped.free & ~gpus; gpu_count(gpus) < clipped.count; rest &= rest - 1) {
    gpus |= rest & (~rest + 1);
  }
  SetChoice choice = describe_choice(tables, query, gpus);
  choice.exact = true;  // the choice needs no search
  return choice;
}

}  // namespace tessera::topology
