#include "topology/wide_search.h"

#include <algorithm>
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

// The candidate whose links into `set` carry most; the nearer NUMA node and then the lower index on ties.
unsigned best_addition(const SetTables& tables, GpuMask set, GpuMask candidates) {
  const std::int32_t home = tables.topology().numa_node(lowest_gpu(set));
  unsigned best = lowest_gpu(candidates);
  std::pair<std::int64_t, bool> most{-1, false};
  for (const unsigned gpu : GpuIndices(candidates)) {
    const std::pair<std::int64_t, bool> gain{mbps_between(tables, gpu, set),
                                             tables.topology().numa_node(gpu) == home};
    if (gain > most) {
      most = gain;
      best = gpu;
    }
  }
  return best;
}

GpuMask grow(const SetTables& tables, GpuMask set, GpuMask candidates, unsigned count) {
  candidates &= ~set;
  while (gpu_count(set) < count) {
    const unsigned gpu = best_addition(tables, set, candidates);
    set |= gpu_bit(gpu);
    candidates &= ~gpu_bit(gpu);
  }
  return set;
}

// Where growing may start: from every free GPU, or from all that are required.
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

// The bandwidth between two sets of GPUs.
std::int64_t cut(const SetTables& tables, GpuMask set, GpuMask rest) {
  std::int64_t sum = 0;
  for (const unsigned gpu : GpuIndices(set)) {
    sum += mbps_between(tables, gpu, rest);
  }
  return sum;
}

// Weighs sets as choose_ring's comment says; what is left to others is stood in for by the bandwidth that is
// cut between the set and the GPUs that stay free.
class Scales {
 public:
  Scales(const SetTables& tables, const SetQuery& query)
      : tables_(tables), query_(query), locality_(tables.topology()) {}

  using Weight = std::tuple<Mbps, std::int64_t, int, int, std::int32_t, int, int, GpuMask>;

  [[nodiscard]] Weight weigh(GpuMask set) const {
    const GpuMask rest = query_.free & ~set;
    return {tables_.ring_mbps(set),
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
};

// Exchanges one GPU at a time for a better one until nothing helps or the steps are used.
GpuMask exchange(const Scales& scales, const SetQuery& query, GpuMask set) {
  auto weight = scales.weigh(set);
  unsigned steps = kMaxExchanges;
  for (bool better = true; better;) {
    better = false;
    for (const unsigned out : GpuIndices(set & ~query.required)) {
      for (const unsigned in : GpuIndices(query.free & ~set)) {
        if (steps-- == 0) {
          return set;
        }
        const GpuMask other = (set & ~gpu_bit(out)) | gpu_bit(in);
        const auto other_weight = scales.weigh(other);
        if (other_weight > weight) {
          weight = other_weight;
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

GpuMask wide_ring(const SetTables& tables, const SetQuery& query) {
  const Scales scales(tables, query);
  GpuMask best = 0;
  Scales::Weight best_weight;
  for (const GpuMask seed : seeds(query)) {
    const GpuMask set = grow(tables, seed, query.free, query.count);
    const auto weight = scales.weigh(set);
    if (best == 0 || weight > best_weight) {
      best = set;
      best_weight = weight;
    }
  }
  return exchange(scales, query, best);
}

GpuMask wide_best_effort(const SetTables& tables, const SetQuery& query) {
  GpuMask best = 0;
  std::pair<std::int32_t, std::int64_t> most;
  for (const GpuMask seed : seeds(query)) {
    const GpuMask set = grow(tables, seed, query.free, query.count);
    const std::pair<std::int32_t, std::int64_t> weight{tables.pair_sum(set),
                                                       -cut(tables, set, query.free & ~set)};
    if (best == 0 || weight > most) {
      best = set;
      most = weight;
    }
  }
  return best;
}

std::vector<Mbps> wide_ideals(const SetTables& tables) {
  std::vector<Mbps> ideals(tables.size() + 1, 0);
  for (const unsigned seed : GpuIndices(tables.topology().all())) {
    GpuMask set = gpu_bit(seed);
    for (unsigned count = 2; count <= tables.size(); ++count) {
      set = grow(tables, set, tables.topology().all(), count);
      ideals[count] = std::max(ideals[count], tables.ring_mbps(set));
    }
  }
  return ideals;
}

}  // namespace tessera::topology
