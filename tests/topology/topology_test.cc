#include "topology/topology.h"

#include <gtest/gtest.h>

#include "machines.h"
#include "topology/bandwidth.h"
#include "topology/set_tables.h"

namespace tessera::topology {
namespace {

TEST(GpuMask, PrintsAndParsesLists) {
  for (const auto& [mask, text] : std::initializer_list<std::pair<GpuMask, const char*>>{
           {0, ""}, {0b1101, "0,2-3"}, {0xff, "0-7"}, {~GpuMask{0}, "0-63"}, {GpuMask{1} << 63, "63"}}) {
    EXPECT_EQ(gpu_list(mask), text);
    EXPECT_EQ(parse_gpu_list(text), mask);
  }
  EXPECT_EQ(parse_gpu_list("3, 0"), 0b1001U);
  EXPECT_EQ(parse_gpu_list("64").error().text(), "GPU 64 does not exist; a node has at most 64 GPUs");
  EXPECT_EQ(parse_gpu_list("0,x").error().text(), "\"0,x\" is not a list of numbers like 0-3,8");
  EXPECT_FALSE(parse_gpu_list("99999999999999999999"));
}

TEST(GpuMask, OrdersSetsLexicographically) {
  EXPECT_TRUE(comes_first(0b1000'0001, 0b110));
  EXPECT_FALSE(comes_first(0b110, 0b1000'0001));
  EXPECT_FALSE(comes_first(0b110, 0b110));
}

TEST(IndexList, MergesRangesSoThatEqualSetsCompareEqual) {
  EXPECT_EQ(IndexList::parse("4,0-2,3,8")->text(), "0-4,8");
  EXPECT_EQ(*IndexList::parse("0,1,2"), *IndexList::parse("0-2"));
  for (const char* bad : {"a", "1-", "-1", "3-1", "1,,2", "65536", "1 2"}) {
    EXPECT_FALSE(IndexList::parse(bad)) << bad;
  }
}

TEST(Link, ParsesItsOwnFullName) {
  for (const Link& link : {Link{}, Link{.path = PciePath::kPsb}, nvlink(2, 2, PciePath::kPix),
                           nvlink(36, 5, PciePath::kUnknown, true), nvlink(1, 1, PciePath::kSys)}) {
    EXPECT_EQ(parse_full_name(full_name(link)), link) << full_name(link);
  }
  EXPECT_EQ(full_name(nvlink(12, 3, PciePath::kSys, true)), "NV12s:3/SYS");
  for (const char* bad :
       {"", "NV", "NV0:2", "NV2", "NV37:4", "NV2:0", "NV2:16", "NV2:2/", "NV2:2/-", "XYZ", "nv2:2"}) {
    EXPECT_FALSE(parse_full_name(bad)) << bad;
  }
}

TEST(Link, DescriptionsMatchTheTopologyAnnotation) {
  EXPECT_EQ(describe(nvlink(1, 2, PciePath::kPix)), "Single NVLink");
  EXPECT_EQ(describe(nvlink(2, 2, PciePath::kPix)), "Two NVLinks");
  EXPECT_EQ(describe(nvlink(12, 3, PciePath::kSys)), "12 NVLinks");
  EXPECT_EQ(describe(Link{.path = PciePath::kSys}), "Cross CPU socket");
  EXPECT_EQ(describe(Link{.path = PciePath::kPsb}), "Same board");
}

TEST(Topology, EqualWiringHasEqualHash) {
  const Topology one = dgx1_volta();
  Topology other = dgx1_volta();
  EXPECT_EQ(one, other);
  EXPECT_EQ(one.hash(), other.hash());
  other.set_link(3, 7, nvlink(2, 2, PciePath::kSys));
  EXPECT_NE(one, other);
  EXPECT_NE(one.hash(), other.hash());
}

TEST(TablePool, SharesTablesBetweenNodesWithEqualWiring) {
  TablePool pool;
  const auto one = pool.of(dgx1_volta());
  EXPECT_EQ(pool.of(dgx1_volta()), one);
  EXPECT_NE(pool.of(dgx1_pascal()), one);
}

TEST(Bandwidth, DecreasesWithPcieDistance) {
  for (const unsigned generation : {3U, 4U, 5U, 6U}) {
    Topology box(2);
    box.pcie_generation = static_cast<std::uint8_t>(generation);
    Mbps last = 0;
    for (const PciePath path :
         {PciePath::kSys, PciePath::kNode, PciePath::kPhb, PciePath::kPxb, PciePath::kPix}) {
      box.set_link(0, 1, Link{.path = path});
      EXPECT_GT(pair_mbps(box, 0, 1), last) << generation << " " << to_string(path);
      last = pair_mbps(box, 0, 1);
    }
    box.set_link(0, 1, Link{.path = PciePath::kPsb});
    EXPECT_EQ(pair_mbps(box, 0, 1), last);
    EXPECT_EQ(last, 12'000U << (generation - 3));
  }
}

TEST(Bandwidth, PrefersSpecifiedValuesToGuesses) {
  Topology box = pcie_tree(8);
  EXPECT_EQ(pcie_generation(box), 4U);
  EXPECT_EQ(pair_mbps(box, 0, 7), 16'000U);
  box.socket_mbps = 10'000;
  EXPECT_EQ(pair_mbps(box, 0, 7), 10'000U);
  box.pcie_generation = 3;
  EXPECT_EQ(pair_mbps(box, 0, 1), 12'000U);
  EXPECT_EQ(pair_mbps(nvswitch_box(8, 18, 5), 0, 1), 18U * 40'100);
}

TEST(Bandwidth, UnknownPathCountsAsTheSlowest) {
  Topology box = pcie_tree(8);
  box.set_link(0, 1, Link{});
  EXPECT_EQ(pair_mbps(box, 0, 1), pair_mbps(box, 0, 7));
}

TEST(PairSum, MatchesNvidias) {
  EXPECT_EQ(pair_sum(dgx1_volta(), 0b1111), 1'120);
  EXPECT_EQ(pair_sum(dgx1_volta(), 0xff), 3'000);
  EXPECT_EQ(pair_sum(dgx1_volta(), 0b1101), 610);
  EXPECT_EQ(pair_sum(dgx1_pascal(), 0b1111), 820);
  EXPECT_EQ(pair_sum(dgx1_pascal(), 0xff), 2'200);
  EXPECT_EQ(pair_score(nvlink(36, 5, PciePath::kUnknown)), 1'800);
}

}  // namespace
}  // namespace tessera::topology
