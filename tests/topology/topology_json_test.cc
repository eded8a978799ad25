#include "topology/topology_json.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "machines.h"

namespace tessera::topology {
namespace {

Result<Topology> read(std::string_view text) {
  const boost::json::value document = TRY(parse_json(text));
  return topology_from_json(JsonReader(document, "topology"));
}

std::string error_of(std::string_view text) {
  const auto result = read(text);
  return result ? "" : result.error().text();
}

Topology with_everything() {
  Topology box = dgx1_volta();
  box.pcie_generation = 3;
  box.socket_mbps = 6'000;
  box.nics = {Nic{.name = "NIC0", .device = "mlx5_0", .paths = std::vector<PciePath>(8, PciePath::kPix)}};
  box.place(0).cpus = *IndexList::parse("0-19,40-59");
  box.place(7).memory_numa = 9;
  return box;
}

TEST(TopologyJson, ParsesItsOwnOutput) {
  for (const Topology& box :
       {Topology(0), Topology(1), dgx1_volta(), nvswitch_box(16, 6, 2), pcie_tree(64), with_everything()}) {
    const std::string text = boost::json::serialize(to_json(box));
    const auto again = read(text);
    ASSERT_TRUE(again) << again.error().text() << "\n" << text;
    EXPECT_EQ(*again, box) << text;
    EXPECT_EQ(boost::json::serialize(to_json(*again)), text);
  }
}

TEST(TopologyJson, IsSmallEnoughForANodeAnnotation) {
  Topology worst(16);
  for (unsigned a = 0; a < 16; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      worst.set_link(a, b, nvlink(10 + (a * 7 + b * 3) % 9, 4, PciePath::kNode, b % 2 == 0));
    }
    worst.place(a).cpus = *IndexList::parse("100-127,200-227,300-327");
  }
  for (unsigned nic = 0; nic < 16; ++nic) {
    Nic card{.name = "NIC" + std::to_string(nic), .device = "mlx5_" + std::to_string(nic), .paths = {}};
    for (unsigned gpu = 0; gpu < 16; ++gpu) {
      card.paths.push_back((gpu + nic) % 2 == 0 ? PciePath::kNode : PciePath::kSys);
    }
    worst.nics.push_back(card);
  }
  EXPECT_LT(boost::json::serialize(to_json(worst)).size(), 8U * 1024);
  EXPECT_LT(boost::json::serialize(to_json(nvswitch_box(16, 6, 2))).size(), 512U);
}

TEST(TopologyJson, ErrorNamesTheInvalidField) {
  EXPECT_EQ(error_of(R"({"v":2,"gpus":1})"), "topology.v is 2, not in 1..1");
  EXPECT_EQ(error_of(R"({"v":1,"gpus":2,"links":["NV99:2"]})"),
            "topology.links[0] has \"NV99:2\", which is not a link");
  EXPECT_EQ(error_of(R"({"v":1,"gpus":3,"links":["2*SYS","2*SYS"]})"),
            "topology.links[1] has 2 links, not 1");
  EXPECT_EQ(error_of(R"({"v":1,"gpus":3,"links":["2*SYS"]})"), "topology has 1 rows in \"links\" for 3 GPUs");
  EXPECT_EQ(error_of(R"({"v":1,"gpus":1,"numa":["x"]})"),
            "topology.numa[0] is invalid: \"x\" is not a list of numbers like 0-3,8");
  EXPECT_EQ(error_of(R"({"v":1,"gpus":2,"links":["99999*SYS"]})"),
            "topology.links[0] has an invalid repeat count for \"SYS\"");
}

}  // namespace
}  // namespace tessera::topology
