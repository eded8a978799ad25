#include "topology/wide_search.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "topology/locality.h"

namespace tessera::topology {

namespace {

constexpr unsigned kMaxExchanges = 2'000;

std::int64_t mbps_between(const SetTables& tables, unsigned gpu, GpuMask others) {
  std::int64_t sum = 0;
  for (const unsigned other : GpuIndices(others & ~gpu_bit(gpu))) {
    sum += tables.pair_mbps(gpu, other);
  }
  return sum;
}

// A set that grows: each time by the candidate with the most bandwidth to it. Ties go to the NUMA
// node of the set, then to the lower index.
class Growth {
 public:
  Growth(const SetTables& tables, GpuMask set, GpuMask candidates)
      : tables_(tables), candidates_(candidates) {
    for (const unsigned gpu : GpuIndices(set)) {
      add(gpu);
    }
  }

  [[nodiscard]] GpuMask set() const { return set_; }

  void add_best() {
    const std::int32_t home = tables_.topology().numa_node(lowest_gpu(set_));
    unsigned best = lowest_gpu(candidates_);
    std::pair<std::int64_t, bool> most{-1, false};
    for (const unsigned gpu : GpuIndices(candidates_)) {
      const std::pair<std::int64_t, bool> gain{mbps_to_set_[gpu], tables_.topology().numa_node(gpu) == home};
      if (gain > most) {
        most = gain;
        best = gpu;
      }
    }
    add(best);
  }

 private:
  void add(unsigned gpu) {
    set_ |= gpu_bit(gpu);
    candidates_ &= ~gpu_bit(gpu);
    for (const unsigned other : GpuIndices(candidates_)) {
      mbps_to_set_[other] += tables_.pair_mbps(gpu, other);
    }
  }

  const SetTables& tables_;
  GpuMask set_ = 0;
  GpuMask candidates_;
  std::array<std::int64_t, kMaxGpus> mbps_to_set_{};
};

GpuMask grow(const SetTables& tables, GpuMask set, GpuMask candidates, unsigned count) {
  Growth growth(tables, set, candidates);
  while (gpu_count(growth.set()) < count) {
    growth.add_best();
  }
  return growth.set();
}

// Returns the initial sets: the required GPUs or, without any, each free GPU.
std::vector<GpuMask> seeds(const SetQuery& query) {
  std::vector<GpuMask> seeds;
  if (query.required != 0) {
    seeds.push_back(query.required);
    return seeds;
  }
  for (const unsigned gpu : GpuIndices(query.free)) {
    seeds.push_back(gpu_bit(gpu));
  }
  return seeds;
}

// Returns the total bandwidth between two sets of GPUs.
std::int64_t cut(const SetTables& tables, GpuMask set, GpuMask rest) {
  std::int64_t sum = 0;
  for (const unsigned gpu : GpuIndices(set)) {
    sum += mbps_between(tables, gpu, rest);
  }
  return sum;
}

// Ranks sets by the criteria of choose_ring. The bandwidth between the set and the remaining free
// GPUs approximates the value left for others.
class Ranking {
 public:
  Ranking(const SetTables& tables, const SetQuery& query, StepBudget& budget)
      : tables_(tables), query_(query), locality_(tables.topology()), budget_(budget) {}

  using Rank = std::tuple<Mbps, std::int64_t, int, int, std::int32_t, int, int, GpuMask>;

  [[nodiscard]] Rank rank(GpuMask set) const {
    const GpuMask rest = query_.free & ~set;
    budget_.take(2 * gpu_count(set));  // for the criteria after the ring
    return {tables_.ring_mbps(set, budget_),
            -cut(tables_, set, rest),
            -static_cast<int>(gpu_count(set & query_.shared)),
            locality_.of_set(set),
            tables_.pair_sum(set),
            locality_.whole_blocks(rest),
            locality_.whole_blocks(set),
            ~set};
  }

 private:
  const SetTables& tables_;
  const SetQuery& query_;
  Locality locality_;
  StepBudget& budget_;
};

// Exchanges one GPU at a time for a better one, until no exchange helps or a limit is reached.
GpuMask exchange(const Ranking& ranking, const SetQuery& query, const StepBudget& budget, GpuMask set) {
  auto rank = ranking.rank(set);
  unsigned steps = kMaxExchanges;
  for (bool better = true; better;) {
    better = false;
    for (const unsigned out : GpuIndices(set & ~query.required)) {
      for (const unsigned in : GpuIndices(query.free & ~set)) {
        if (steps-- == 0 || budget.left() == 0) {
          return set;
        }
        const GpuMask other = (set & ~gpu_bit(out)) | gpu_bit(in);
        const auto other_rank = ranking.rank(other);
        if (other_rank > rank) {
          rank = other_rank;
          set = other;
          better = true;
          break;
        }
      }
    }
  }
  return set;
}

}  // namespace

GpuMask wide_ring(const SetTables& tables, const SetQuery& query, StepBudget& budget) {
  const Ranking ranking(tables, query, budget);
  GpuMask best = 0;
  Ranking::Rank best_rank;
  for (const GpuMask seed : seeds(query)) {
    const GpuMask set = grow(tables, seed, query.free, query.count);
    const auto rank = ranking.rank(set);
    if (best == 0 || rank > best_rank) {
      best = set;
      best_rank = rank;
    }
  }
  return exchange(ranking, query, budget, best);
}

GpuMask wide_best_effort(const SetTables& tables, const SetQuery& query) {
  GpuMask best = 0;
  std::pair<std::int32_t, std::int64_t> most;
  for (const GpuMask seed : seeds(query)) {
    const GpuMask set = grow(tables, seed, query.free, query.count);
    const std::pair<std::int32_t, std::int64_t> rank{tables.pair_sum(set),
                                                     -cut(tables, set, query.free & ~set)};
    if (best == 0 || rank > most) {
      best = set;
      most = rank;
    }
  }
  return best;
}

std::vector<Mbps> wide_ideals(const SetTables& tables, StepBudget& budget) {
  std::vector<Mbps> ideals(tables.size() + 1, 0);
  const GpuMask all = tables.topology().all();
  for (const unsigned seed : GpuIndices(all)) {
    if (seed > 0 && budget.left() == 0) {
      break;
    }
    Growth growth(tables, gpu_bit(seed), all);
    for (unsigned count = 2; count <= tables.size(); ++count) {
      growth.add_best();
      ideals[count] = std::max(ideals[count], tables.ring_mbps(growth.set(), budget));
    }
  }
  return ideals;
}

}  // namespace tessera::topology
