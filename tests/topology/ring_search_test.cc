// Compares the `ring` policy with a plain search that tries every set and computes everything from
// the links.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "machines.h"
#include "topology/set_search.h"

namespace tessera::topology {
namespace {

// Tries all orders of the GPUs.
Mbps ring_by_permutation(const Topology& box, GpuMask set) {
  std::vector<unsigned> order;
  for (const unsigned gpu : GpuIndices(set)) {
    order.push_back(gpu);
  }
  if (order.size() < 2) {
    return 0;
  }
  Mbps best = 0;
  do {
    Mbps slowest = ~Mbps{0};
    for (std::size_t i = 0; i < order.size(); ++i) {
      slowest = std::min(slowest, pair_mbps(box, order[i], order[(i + 1) % order.size()]));
    }
    best = std::max(best, slowest);
  } while (std::next_permutation(order.begin() + 1, order.end()));
  return best;
}

// Different machines of up to 8 GPUs, and one with random links.
std::vector<Topology> small_machines() {
  std::vector<Topology> machines = {dgx1_volta(), dgx1_pascal(), nvswitch_box(8, 12, 3), pcie_tree(8)};
  Topology degraded = nvswitch_box(8, 18, 4);  // one GPU lost the fabric
  for (unsigned gpu = 0; gpu < 8; ++gpu) {
    if (gpu != 5) {
      degraded.set_link(gpu, 5, Link{.path = gpu < 4 ? PciePath::kSys : PciePath::kNode});
    }
  }
  degraded.nics = {Nic{.name = "NIC0", .device = {}, .paths = std::vector<PciePath>(8, PciePath::kSys)}};
  degraded.nics[0].paths[6] = PciePath::kPix;
  machines.push_back(degraded);
  std::mt19937 random(4);
  Topology odd(7);
  for (unsigned a = 0; a < 7; ++a) {
    odd.place(a).numa = IndexList::of(static_cast<std::uint32_t>(random() % 3));
    for (unsigned b = 0; b < a; ++b) {
      odd.set_link(a, b,
                   nvlink(static_cast<unsigned>(random() % 4), 3, static_cast<PciePath>(1 + random() % 6)));
    }
  }
  machines.push_back(odd);
  machines.push_back(forged(7));
  machines.emplace_back(1);
  return machines;
}

// Computes left_for_others() as its header describes it, one set at a time.
std::vector<std::uint64_t> worth_of_free_sets(const Topology& box, const std::vector<Mbps>& rings) {
  std::map<unsigned, std::uint64_t> ideal;
  std::map<unsigned, std::uint64_t> total;
  for (GpuMask set = 0; set < rings.size(); ++set) {
    ideal[gpu_count(set)] = std::max<std::uint64_t>(ideal[gpu_count(set)], rings[set]);
    ++total[gpu_count(set)];
  }
  std::vector<std::uint64_t> worth(rings.size(), 0);
  for (GpuMask free = 0; free < rings.size(); ++free) {
    for (GpuMask set = 0; set < rings.size(); ++set) {
      if (gpu_count(set) >= 2) {
        const std::uint64_t counts =
            (1ULL << 24U) * rings[set] / ideal[gpu_count(set)] / total[gpu_count(set)];
        worth[free] += counts << (2 * (box.size() - gpu_count(set & ~free)));
      }
    }
    worth[free] >>= 2 * box.size();
  }
  const std::uint64_t most = worth.back();
  for (std::uint64_t& value : worth) {
    value = most == 0 ? 0 : value * 65'535 / most;
  }
  return worth;
}

// Ranks sets by the criteria of choose_ring, computed from the links alone.
class PlainSearch {
 public:
  explicit PlainSearch(const Topology& box) : box_(box) {
    for (GpuMask set = 0; set <= box.all(); ++set) {
      rings_.push_back(ring_by_permutation(box, set));
    }
    worth_ = worth_of_free_sets(box, rings_);
  }

  using Rank = std::tuple<Mbps, std::uint64_t, int, int, int, std::int32_t, std::uint64_t, std::uint64_t,
                          std::int64_t>;

  [[nodiscard]] Rank rank(const SetQuery& query, GpuMask set) const {
    std::set<int> nodes;
    int with_nic = 0;
    for (const unsigned gpu : GpuIndices(set)) {
      nodes.insert(box_.numa_node(gpu));
      with_nic += box_.near_nics(gpu) != 0 ? 1 : 0;
    }
    return {rings_[set],
            worth_[query.free & ~set],
            -static_cast<int>(gpu_count(set & query.shared)),
            -static_cast<int>(nodes.size()),
            gpu_count(set) == 1 ? -with_nic : with_nic,
            pair_sum(box_, set),
            whole_blocks(query.free & ~set),
            whole_blocks(set) / 2,
            -static_cast<std::int64_t>(set)};
  }

  [[nodiscard]] GpuMask best(const SetQuery& query) const {
    GpuMask best = 0;
    for (GpuMask set = 1; set <= box_.all(); ++set) {
      if (gpu_count(set) == query.count && (set & ~query.free) == 0 && (query.required & ~set) == 0 &&
          (best == 0 || rank(query, set) > rank(query, best))) {
        best = set;
      }
    }
    return best;
  }

  [[nodiscard]] Mbps ring(GpuMask set) const { return rings_[set]; }
  [[nodiscard]] std::uint64_t worth(GpuMask free) const { return worth_[free]; }

 private:
  [[nodiscard]] std::uint64_t whole_blocks(GpuMask free) const {
    std::map<int, std::vector<unsigned>> nodes;
    for (unsigned gpu = 0; gpu < box_.size(); ++gpu) {
      nodes[box_.numa_node(gpu)].push_back(gpu);
    }
    std::set<GpuMask> blocks = {box_.all()};
    for (auto& [node, gpus] : nodes) {
      std::ranges::stable_sort(gpus, {}, [&](unsigned gpu) { return box_.near_nics(gpu); });
      for (std::size_t length = 1; length <= gpus.size(); ++length) {
        for (std::size_t from = 0; from + length <= gpus.size(); from += length) {
          GpuMask block = 0;
          for (std::size_t i = from; i < from + length; ++i) {
            block |= gpu_bit(gpus[i]);
          }
          if (std::has_single_bit(length) || length == gpus.size()) {
            blocks.insert(block);
          }
        }
      }
    }
    std::uint64_t worth = 0;
    for (const GpuMask block : blocks) {
      const std::uint64_t size = gpu_count(block);
      worth += size >= 2 && (block & ~free) == 0 ? size * size : 0;
    }
    return worth;
  }

  const Topology& box_;
  std::vector<Mbps> rings_;
  std::vector<std::uint64_t> worth_;
};

TEST(RingSearch, MatchesThePlainSearchForEveryFreeSetAndCount) {
  for (const Topology& box : small_machines()) {
    const SetTables tables(box);
    const PlainSearch plain(box);
    for (GpuMask free = 0; free <= box.all(); ++free) {
      ASSERT_EQ(tables.ring_mbps(free), plain.ring(free)) << gpu_list(free);
      ASSERT_EQ(tables.left_for_others(free), plain.worth(free)) << gpu_list(free);
      for (unsigned count = 1; count <= gpu_count(free); ++count) {
        const SetQuery query{.free = free, .count = count};
        const auto choice = choose_ring(tables, query);
        ASSERT_TRUE(choice);
        ASSERT_EQ(gpu_list(choice->gpus), gpu_list(plain.best(query))) << gpu_list(free) << " / " << count;
      }
    }
  }
}

// The number of steps must not grow with the number of bandwidths, and the result stays exact.
TEST(RingSearch, IsExactWith120BandwidthsOn16Gpus) {
  const Topology box = forged(16);
  const SetTables tables(box);
  std::set<Mbps> bandwidths;
  for (GpuMask set = 0; set <= box.all(); ++set) {
    if (gpu_count(set) == 2) {
      bandwidths.insert(tables.ring_mbps(set));
    }
    if (gpu_count(set) <= 5) {
      ASSERT_EQ(tables.ring_mbps(set), ring_by_permutation(box, set)) << gpu_list(set);
    }
  }
  EXPECT_EQ(bandwidths.size(), 120U);
  EXPECT_TRUE(choose_ring(tables, {.free = box.all(), .count = 8})->exact);
}

TEST(RingSearch, MatchesThePlainSearchWithRequiredAndSharedGpus) {
  std::mt19937 random(11);
  for (const Topology& box : small_machines()) {
    const SetTables tables(box);
    const PlainSearch plain(box);
    for (int i = 0; i < 300; ++i) {
      SetQuery query{.free = random() & box.all(), .count = 0};
      query.required = random() & random() & query.free;
      query.shared = random() & box.all();
      for (query.count = std::max(1U, gpu_count(query.required)); query.count <= gpu_count(query.free);
           ++query.count) {
        const auto choice = choose_ring(tables, query);
        ASSERT_TRUE(choice);
        ASSERT_EQ(gpu_list(choice->gpus), gpu_list(plain.best(query)));
        ASSERT_EQ(choice->ring_mbps, plain.ring(choice->gpus));
      }
    }
  }
}

TEST(RingOrder, VisitsEveryGpuOnceOverLinksThatAreFastEnough) {
  for (const Topology& box : small_machines()) {
    const SetTables tables(box);
    for (GpuMask set = 1; set <= box.all(); ++set) {
      const std::vector<unsigned> order = tables.ring_order(set);
      if (gpu_count(set) < 2) {
        ASSERT_TRUE(order.empty());
        continue;
      }
      GpuMask visited = 0;
      for (std::size_t i = 0; i < order.size(); ++i) {
        visited |= gpu_bit(order[i]);
        ASSERT_GE(tables.pair_mbps(order[i], order[(i + 1) % order.size()]), tables.ring_mbps(set));
      }
      ASSERT_EQ(order.size(), gpu_count(set));
      ASSERT_EQ(visited, set);
    }
  }
}

// Returns whether a ring over links of at least `floor` exists, by depth-first search. Checks sets
// that are too large for permutations.
bool has_ring(const Topology& box, GpuMask set, Mbps floor, unsigned at, GpuMask rest) {
  if (rest == 0) {
    return pair_mbps(box, at, lowest_gpu(set)) >= floor;
  }
  for (const unsigned next : GpuIndices(rest)) {
    if (pair_mbps(box, at, next) >= floor && has_ring(box, set, floor, next, rest & ~gpu_bit(next))) {
      return true;
    }
  }
  return false;
}

Mbps ring_by_search(const Topology& box, GpuMask set) {
  std::set<Mbps, std::greater<>> floors;
  for (const unsigned a : GpuIndices(set)) {
    for (const unsigned b : GpuIndices(set & first_gpus(a))) {
      floors.insert(pair_mbps(box, a, b));
    }
  }
  const unsigned start = lowest_gpu(set);
  for (const Mbps floor : floors) {
    if (has_ring(box, set, floor, start, set & ~gpu_bit(start))) {
      return floor;
    }
  }
  return 0;
}

std::vector<Topology> machines_of_16() {
  std::vector<Topology> machines = {nvswitch_box(16, 6, 2), pcie_tree(16)};
  Topology twin(16);  // two cube meshes, connected by PCIe only
  const Topology cube = dgx1_volta();
  std::mt19937 random(2);
  Topology odd(16);
  for (unsigned a = 0; a < 16; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      twin.set_link(a, b, a / 8 == b / 8 ? cube.link(a % 8, b % 8) : Link{.path = PciePath::kSys});
      odd.set_link(a, b, nvlink(static_cast<unsigned>(random() % 3), 2, PciePath::kNode));
    }
  }
  two_sockets(twin);
  machines.push_back(twin);
  machines.push_back(odd);
  return machines;
}

TEST(RingSearch, MatchesThePlainSearchOnSixteenGpus) {
  std::mt19937 random(7);
  for (const Topology& box : machines_of_16()) {
    const SetTables tables(box);
    for (int i = 0; i < 40; ++i) {
      const GpuMask free = (random() | (i % 2 == 0 ? random() : 0)) & box.all();
      for (unsigned count = 2; count <= gpu_count(free); ++count) {
        const auto choice = choose_ring(tables, {.free = free, .count = count});
        ASSERT_TRUE(choice);
        // No free set of this size has a better ring, and none with this ring leaves more for
        // others.
        Mbps best = 0;
        std::uint32_t most_left = 0;
        for (GpuMask set = free; set != 0; set = (set - 1) & free) {
          if (gpu_count(set) == count) {
            const std::pair<Mbps, std::uint32_t> merit{tables.ring_mbps(set),
                                                       tables.left_for_others(free & ~set)};
            std::tie(best, most_left) = std::max(merit, std::pair{best, most_left});
          }
        }
        ASSERT_EQ(choice->ring_mbps, best);
        ASSERT_EQ(choice->left_after, most_left);
      }
      if (gpu_count(free) >= 2 && gpu_count(free) <= 10) {
        ASSERT_EQ(tables.ring_mbps(free), ring_by_search(box, free)) << gpu_list(free);
      }
    }
  }
}

TEST(RingSearch, QualityDoesNotDependOnTheNumberingOfGpus) {
  std::mt19937 random(3);
  for (const Topology& box : small_machines()) {
    const SetTables tables(box);
    std::vector<unsigned> to(box.size());
    std::iota(to.begin(), to.end(), 0U);
    for (int i = 0; i < 10; ++i) {
      std::ranges::shuffle(to, random);
      Topology renumbered(box.size());
      for (unsigned a = 0; a < box.size(); ++a) {
        renumbered.place(to[a]) = box.place(a);
        for (unsigned b = 0; b < a; ++b) {
          renumbered.set_link(to[a], to[b], box.link(a, b));
        }
      }
      const SetTables other(renumbered);
      for (GpuMask free = 1; free <= box.all(); ++free) {
        GpuMask other_free = 0;
        for (const unsigned gpu : GpuIndices(free)) {
          other_free |= gpu_bit(to[gpu]);
        }
        const unsigned count = 1 + static_cast<unsigned>(random() % gpu_count(free));
        const auto one = choose_ring(tables, {.free = free, .count = count});
        const auto two = choose_ring(other, {.free = other_free, .count = count});
        ASSERT_EQ(one->ring_mbps, two->ring_mbps);
        ASSERT_EQ(one->left_after, two->left_after);
      }
    }
  }
}

TEST(RingSearch, PrefersOneNumaNodeAndAlignedBlocksWithNvswitch) {
  const SetTables tables(nvswitch_box(8, 18, 4));
  EXPECT_EQ(choose_ring(tables, {.free = 0xff, .count = 4})->gpus, 0x0fU);
  EXPECT_EQ(choose_ring(tables, {.free = 0b1111'1110, .count = 2})->gpus, 0b0000'1100U);
  EXPECT_EQ(choose_ring(tables, {.free = 0b1111'1110, .count = 1})->gpus, 0b0000'0010U);
  EXPECT_EQ(choose_ring(tables, {.free = 0b1111'1110, .count = 4})->gpus, 0b1111'0000U);
}

TEST(RingSearch, PrefersGpusWithANicForSeveralGpusAndAvoidsThemForOne) {
  Topology box = nvswitch_box(8, 18, 4);
  box.nics = {Nic{.name = "NIC0", .device = {}, .paths = std::vector<PciePath>(8, PciePath::kSys)}};
  box.nics[0].paths[6] = box.nics[0].paths[7] = PciePath::kPix;
  const SetTables tables(box);
  EXPECT_EQ(choose_ring(tables, {.free = 0xff, .count = 2})->gpus, 0b1100'0000U);
  EXPECT_EQ(choose_ring(tables, {.free = 0b1110'0000, .count = 1})->gpus, 0b0010'0000U);
}

TEST(RingSearch, AvoidsSharedGpusIfRingsAreEqual) {
  const SetTables tables(nvswitch_box(8, 18, 4));
  EXPECT_EQ(choose_ring(tables, {.free = 0xff, .count = 2, .shared = 0x0f})->gpus, 0b0011'0000U);
}

TEST(RingSearch, AvoidsAGpuThatLostNvlinkWhileOthersSuffice) {
  Topology box = nvswitch_box(8, 18, 4);
  for (unsigned gpu = 1; gpu < 8; ++gpu) {
    box.set_link(0, gpu, Link{.path = PciePath::kSys});
  }
  const SetTables tables(box);
  for (unsigned count = 2; count <= 7; ++count) {
    EXPECT_EQ(choose_ring(tables, {.free = 0xff, .count = count})->gpus & 1U, 0U) << count;
  }
  EXPECT_EQ(choose_ring(tables, {.free = 0xff, .count = 1})->gpus, 1U);  // a single GPU needs no NVLink
}

TEST(SetSearch, ReturnsNothingForImpossibleQueries) {
  const SetTables tables(dgx1_volta());
  for (const SetQuery& query : {SetQuery{.free = 0xff, .count = 0}, SetQuery{.free = 0x0f, .count = 5},
                                SetQuery{.free = 0x0f, .count = 2, .required = 0x10},
                                SetQuery{.free = 0x0f, .count = 2, .required = 0x07},
                                SetQuery{.free = 0xff00, .count = 1}, SetQuery{.free = 0xff, .count = 900}}) {
    EXPECT_FALSE(choose_ring(tables, query));
    EXPECT_FALSE(choose_best_effort(tables, query));
    EXPECT_FALSE(choose_simple(tables, query));
  }
  EXPECT_FALSE(choose_ring(SetTables(Topology(0)), {.free = 1, .count = 1}));
}

// T4: `simple` of the original topology scheduler considered only GPUs 0 .. n-1 and returned too
// few if one of them was busy.
TEST(SimpleSearch, SkipsBusyGpus) {
  const SetTables tables(dgx1_volta());
  EXPECT_EQ(choose_simple(tables, {.free = 0b1111'1101, .count = 2})->gpus, 0b101U);
  EXPECT_EQ(choose_simple(tables, {.free = 0xff, .count = 2, .required = 0x10})->gpus, 0b0001'0001U);
  EXPECT_EQ(choose_simple(tables, {.free = 0xff, .count = 4, .required = 0x10})->gpus, 0b0001'0111U);
}

// T3: the original topology scheduler reversed the PCIe classes: it preferred two GPUs on different
// sockets to two GPUs on one switch.
TEST(SetSearch, PrefersTheNearerPciePath) {
  const SetTables tables(pcie_tree(8));
  const GpuMask across_and_near = 0b1100'0001;  // 6 and 7 share a switch; 0 is on the other socket
  EXPECT_EQ(choose_ring(tables, {.free = across_and_near, .count = 2})->gpus, 0b1100'0000U);
  EXPECT_EQ(choose_best_effort(tables, {.free = across_and_near, .count = 2})->gpus, 0b1100'0000U);
}

// T12: the first design of the original failed for three or more GPUs, and for a request for all
// free GPUs.
TEST(RingSearch, ChoosesThreeGpusAndAllFreeGpus) {
  const SetTables tables(dgx1_volta());
  EXPECT_EQ(choose_ring(tables, {.free = 0b1011, .count = 3})->gpus, 0b1011U);
  EXPECT_EQ(choose_ring(tables, {.free = 0xff, .count = 8})->gpus, 0xffU);
}

// T8: the original erased the links of GPUs in use and restored them incorrectly. Here, queries
// keep no state.
TEST(SetSearch, KeepsNoStateBetweenQueries) {
  const SetTables tables(dgx1_volta());
  const auto before = choose_ring(tables, {.free = 0xff, .count = 3});
  for (GpuMask free = 1; free < 256; ++free) {
    (void)choose_ring(tables, {.free = free, .count = 1});
    (void)choose_best_effort(tables, {.free = free, .count = 1});
  }
  EXPECT_EQ(choose_ring(tables, {.free = 0xff, .count = 3}), before);
}

}  // namespace
}  // namespace tessera::topology
