// Compares the `prim` policy with Prim's algorithm as a plain search over all ties, and checks the
// defects that the search of the original had (T12).
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "machines.h"
#include "topology/set_search.h"

namespace tessera::topology {
namespace {

GpuMask prim(const SetTables& tables, const SetQuery& query) {
  const auto choice = choose_prim(tables, query);
  return choice ? choice->gpus : 0;
}

// Returns the best link between a GPU and any GPU of the set.
Mbps best_link(const Topology& box, unsigned gpu, GpuMask set) {
  Mbps best = 0;
  for (const unsigned member : GpuIndices(set)) {
    best = std::max(best, pair_mbps(box, gpu, member));
  }
  return best;
}

// Every set that Prim's algorithm can return, whichever way it breaks ties: all closest free pairs,
// each with all nearest free GPUs, and so on.
class AllPrims {
 public:
  AllPrims(const Topology& box, GpuMask free) : box_(box), free_(free) {}

  [[nodiscard]] std::set<GpuMask> sets(unsigned count, GpuMask required) const {
    std::set<GpuMask> sets = required != 0 ? std::set<GpuMask>{required} : seeds(count);
    for (unsigned size = gpu_count(*sets.begin()); size < count; ++size) {
      std::set<GpuMask> larger;
      for (const GpuMask set : sets) {
        Mbps nearest = 0;
        for (const unsigned gpu : GpuIndices(free_ & ~set)) {
          nearest = std::max(nearest, best_link(box_, gpu, set));
        }
        for (const unsigned gpu : GpuIndices(free_ & ~set)) {
          if (best_link(box_, gpu, set) == nearest) {
            larger.insert(set | gpu_bit(gpu));
          }
        }
      }
      sets = std::move(larger);
    }
    return sets;
  }

 private:
  [[nodiscard]] std::set<GpuMask> seeds(unsigned count) const {
    std::set<GpuMask> seeds;
    Mbps closest = 0;
    for (const unsigned a : GpuIndices(free_)) {
      if (count == 1) {
        seeds.insert(gpu_bit(a));
        continue;
      }
      for (const unsigned b : GpuIndices(free_ & first_gpus(a))) {
        if (const Mbps mbps = pair_mbps(box_, a, b); mbps >= closest) {
          seeds = mbps > closest ? std::set<GpuMask>{} : std::move(seeds);
          closest = mbps;
          seeds.insert(gpu_bit(a) | gpu_bit(b));
        }
      }
    }
    return seeds;
  }

  const Topology& box_;
  GpuMask free_;
};

TEST(Prim, ReturnsASetOfPrimsAlgorithmForEveryFreeSetOfADgx1) {
  for (const Topology& box : {dgx1_volta(), dgx1_pascal(), pcie_tree(8)}) {
    const SetTables tables(box);
    for (GpuMask free = 1; free < 256; ++free) {
      for (unsigned count = 1; count <= gpu_count(free); ++count) {
        const GpuMask chosen = prim(tables, {.free = free, .count = count});
        ASSERT_EQ(gpu_count(chosen), count);
        ASSERT_TRUE(AllPrims(box, free).sets(count, 0).contains(chosen))
            << gpu_list(chosen) << " of " << gpu_list(free);
      }
    }
  }
}

TEST(Prim, StartsWithTheRequiredGpus) {
  const Topology box = dgx1_volta();
  const SetTables tables(box);
  for (GpuMask required = 1; required < 256; ++required) {
    const GpuMask free = 0xdf | required;
    for (unsigned count = gpu_count(required); count <= gpu_count(free); ++count) {
      const GpuMask chosen = prim(tables, {.free = free, .count = count, .required = required});
      ASSERT_TRUE(AllPrims(box, free).sets(count, required).contains(chosen))
          << gpu_list(chosen) << " of " << gpu_list(free) << " with " << gpu_list(required);
    }
  }
}

// One GPU and two GPUs are chosen as by `ring`: the ring of a pair is its link.
TEST(Prim, ChoosesOneOrTwoGpusAsRingDoes) {
  for (const Topology& box : {dgx1_volta(), nvswitch_box(8, 12, 3), pcie_tree(8), Topology(8)}) {
    const SetTables tables(box);
    for (GpuMask free = 1; free < 256; ++free) {
      for (unsigned count = 1; count <= std::min(2U, gpu_count(free)); ++count) {
        const SetQuery query{.free = free, .count = count, .shared = 0x0c};
        ASSERT_EQ(choose_prim(tables, query), choose_ring(tables, query)) << gpu_list(free);
      }
    }
  }
}

// Also for machines that are too large for a table: only free GPUs, as many as requested, from the
// closest pair on, and the same set each time.
TEST(Prim, IsValidAndDeterministicOnRandomMachines) {
  std::mt19937 random(12);
  for (const unsigned gpus : {1U, 2U, 5U, 12U, 17U, 40U, 64U}) {
    Topology box(gpus);
    for (unsigned a = 0; a < gpus; ++a) {
      for (unsigned b = 0; b < a; ++b) {
        box.set_link(a, b,
                     nvlink(static_cast<unsigned>(random() % 4), 3, static_cast<PciePath>(random() % 7)));
      }
    }
    const SetTables tables(box);
    const SetTables same(box);
    for (unsigned round = 0; round < 40; ++round) {
      const GpuMask bits = (GpuMask{random()} << 32U) | random();
      const GpuMask free = round == 0 ? box.all() : bits & box.all();
      const unsigned most = gpu_count(free);
      if (most == 0) {
        continue;
      }
      const SetQuery query{
          .free = free, .count = 1 + static_cast<unsigned>(random() % most), .shared = random()};
      const GpuMask chosen = prim(tables, query);
      ASSERT_EQ(gpu_count(chosen), query.count);
      ASSERT_EQ(chosen & ~free, 0U);
      ASSERT_EQ(chosen, prim(same, query));
      Mbps closest = 0;
      Mbps has = 0;
      for (const unsigned a : GpuIndices(free)) {
        closest = std::max(closest, best_link(box, a, free & ~gpu_bit(a)));
        has = (chosen & gpu_bit(a)) != 0 ? std::max(has, best_link(box, a, chosen & ~gpu_bit(a))) : has;
      }
      ASSERT_TRUE(query.count == 1 || has == closest) << gpus << " GPUs, free " << gpu_list(free);
    }
  }
}

TEST(Prim, RefusesAnImpossibleQuery) {
  const SetTables tables(dgx1_volta());
  EXPECT_FALSE(choose_prim(tables, {.free = 0x0f, .count = 5}));
  EXPECT_FALSE(choose_prim(tables, {.free = 0x0f, .count = 0}));
  EXPECT_FALSE(choose_prim(tables, {.free = 0x0f, .count = 2, .required = 0x10}));
}

// T12: the original returned nothing if more GPUs were free than requested, failed for three and
// more GPUs, and took the slowest links first.
TEST(Prim, T12_GrowsFromTheClosestPairAlongTheFastestLinks) {
  Topology box(6);  // 0 -NV1- 1 -NV2- 2 -NV1- 3, and PCIe for the rest
  for (unsigned a = 0; a < 6; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      box.set_link(a, b, Link{.path = PciePath::kSys});
    }
  }
  box.set_link(0, 1, nvlink(1, 2, PciePath::kSys));
  box.set_link(1, 2, nvlink(2, 2, PciePath::kSys));
  box.set_link(2, 3, nvlink(1, 2, PciePath::kSys));
  box.set_link(4, 5, Link{.path = PciePath::kPix});
  const SetTables tables(box);
  EXPECT_EQ(prim(tables, {.free = 0x3f, .count = 2}), 0b000110U);
  EXPECT_EQ(prim(tables, {.free = 0x3f, .count = 3}), 0b000111U);
  EXPECT_EQ(prim(tables, {.free = 0x3f, .count = 4}), 0b001111U);
  EXPECT_EQ(prim(tables, {.free = 0x3b, .count = 3}), 0b001011U) << "0-1, then the lower of 3, 4 and 5";
  EXPECT_EQ(prim(tables, {.free = 0x38, .count = 3}), 0b111000U);
  EXPECT_EQ(prim(tables, {.free = 0x3b, .count = 3, .shared = 0x08}), 0b010011U) << "3 is shared";
}

}  // namespace
}  // namespace tessera::topology
