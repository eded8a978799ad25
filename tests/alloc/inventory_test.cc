#include "alloc/inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>

#include "alloc/units.h"
#include "cluster.h"

namespace tessera::alloc::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Inventory rich_inventory(unsigned gpus) {
  Inventory inventory;
  inventory.driver = "550.54.15";
  inventory.machine = "dgx1v";
  inventory.topology = topology::Topology(gpus);
  for (unsigned i = 0; i < gpus; ++i) {
    inventory.gpus.push_back({.uuid = fmt::format("GPU-{:08x}-7b1c-4a52-9f0e-0123456789ab", i),
                              .index = i,
                              .minor = static_cast<std::int32_t>(gpus - i),
                              .model = "Tesla V100-SXM2-32GB",
                              .memory_mib = 32'768,
                              .reserved_mib = 271,
                              .pci_bus_id = fmt::format("00000000:{:02X}:00.0", i)});
    for (unsigned j = 0; j < i; ++j) {
      inventory.topology.set_link(i, j,
                                  {.path = topology::PciePath::kSys,
                                   .nvlinks = static_cast<std::uint8_t>(1 + (i * j) % 6),
                                   .generation = 2});
    }
  }
  return inventory;
}

TEST(Inventory, ReadsBackWhatItPrints) {
  Inventory inventory = rich_inventory(8);
  inventory.gpus[3].unhealthy = "XID 79";
  inventory.subtract_reserved = true;
  inventory.mps = true;
  inventory.also_served_as = {"nvidia.com/gpu"};
  const auto again = Inventory::parse(inventory.json());
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(*again, inventory);
  EXPECT_EQ(again->json(), inventory.json());
}

TEST(Inventory, RejectsResourceNamesThatAreTooLong) {
  Inventory inventory = rich_inventory(1);
  inventory.also_served_as = {std::string(317, 'x')};
  EXPECT_TRUE(Inventory::parse(inventory.json()));
  inventory.also_served_as = {std::string(318, 'x')};
  EXPECT_FALSE(Inventory::parse(inventory.json()));
}

TEST(Inventory, PrintsTheSameTextForAnyOrderOfGpus) {
  const Inventory inventory = rich_inventory(4);
  auto document = boost::json::parse(inventory.json()).as_object();
  auto& gpus = document["gpus"].as_array();
  std::swap(gpus[0], gpus[2]);
  // Links are in the order of the list.
  topology::Topology reordered(4);
  const std::array<unsigned, 4> order = {2, 1, 0, 3};
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned j = i + 1; j < 4; ++j) {
      reordered.set_link(i, j, inventory.topology.link(order[i], order[j]));
    }
  }
  Inventory shuffled = inventory;
  shuffled.topology = reordered;
  document["topology"] = boost::json::parse(shuffled.json()).as_object()["topology"];
  EXPECT_EQ(Inventory::parse(boost::json::serialize(document)).value().json(), inventory.json());
}

TEST(Inventory, StaysUnder32KibForSixteenGpus) {
  Inventory inventory = rich_inventory(16);
  for (Gpu& gpu : inventory.gpus) {
    gpu.unhealthy = "XID 79: GPU has fallen off the bus, since 2026-11-15T14:02:11Z";
  }
  for (unsigned nic = 0; nic < 10; ++nic) {
    inventory.topology.nics.push_back({.name = fmt::format("NIC{}", nic),
                                       .device = fmt::format("mlx5_{}", nic),
                                       .paths = std::vector(16, topology::PciePath::kPxb)});
  }
  EXPECT_LT(inventory.json().size(), 32U << 10U);
}

TEST(Inventory, NamesTheInvalidField) {
  const auto broken = [](std::string_view what, const auto& change) {
    auto document = boost::json::parse(rich_inventory(2).json()).as_object();
    change(document);
    const auto result = Inventory::parse(boost::json::serialize(document));
    ASSERT_FALSE(result) << what;
    EXPECT_THAT(result.error().text(), HasSubstr(what));
  };
  broken("tessera.io/inventory.v is", [](auto& d) { d["v"] = 2; });
  broken("memory unit \"GB\"", [](auto& d) { d["unit"] = "GB"; });
  broken("gpus[1].uuid is missing", [](auto& d) { d["gpus"].as_array()[1].as_object().erase("uuid"); });
  broken("gpus[0].memory_mib", [](auto& d) { d["gpus"].as_array()[0].as_object()["memory_mib"] = -1; });
  broken("more reserved memory",
         [](auto& d) { d["gpus"].as_array()[0].as_object()["reserved_mib"] = 40'000; });
  broken("twice", [](auto& d) { d["gpus"].as_array()[0].as_object()["index"] = 1; });
  broken("not a UUID", [](auto& d) { d["gpus"].as_array()[0].as_object()["uuid"] = "index-0"; });
  broken("has 1 GPUs but a topology of 2", [](auto& d) { d["gpus"].as_array().pop_back(); });
  EXPECT_FALSE(Inventory::parse("not json"));
}

TEST(Inventory, CountsWholeUnitsOnly) {
  Inventory inventory = rich_inventory(1);
  inventory.gpus[0].memory_mib = 16'130;
  inventory.gpus[0].reserved_mib = 900;
  EXPECT_EQ(inventory.units(0), 15U);
  inventory.subtract_reserved = true;
  EXPECT_EQ(inventory.units(0), 14U);
  inventory.unit = Unit::parse("256MiB").value();
  EXPECT_EQ(inventory.units(0), 59U);
}

TEST(Inventory, IsEstimatedFromCapacityOnNodesOfTheOriginalPlugin) {
  const Inventory inventory = Inventory::of_node(original_node("a", 30, 2), Unit::gib()).value();
  EXPECT_EQ(inventory.original, (OriginalPlugins{.shares = true, .whole = false}));
  ASSERT_EQ(inventory.gpus.size(), 2U);
  EXPECT_EQ(inventory.units(1), 15U);
  EXPECT_EQ(inventory.gpus[1].uuid, "index-1");
  EXPECT_THAT(Inventory::of_node(original_node("a", 16, 0), Unit::gib()).value().gpus, IsEmpty());
  EXPECT_FALSE(Inventory::of_node(original_node("a", 16, 1'000'000), Unit::gib()));
}

TEST(Inventory, OriginalPluginThatCountsInMibIsNotReadAsGib) {
  EXPECT_EQ(Inventory::of_node(original_node("a", 32'260, 2), Unit::gib()).value().unit, Unit::mib());
  EXPECT_EQ(Inventory::of_node(original_node("a", 32, 2), Unit::mib()).value().unit, Unit::gib());
  EXPECT_EQ(Inventory::of_node(original_node("a", 1'440, 8), Unit::gib()).value().unit, Unit::gib());
}

TEST(Inventory, PrintsTheAnnotationsOfTheTopologyDesigns) {
  Inventory inventory = rich_inventory(2);
  inventory.topology.set_link(0, 1, {.path = topology::PciePath::kPhb, .nvlinks = 2, .generation = 2});
  Annotations annotations = inventory.original_annotations();
  EXPECT_EQ(annotations["GPU_TOPOLOGY"], R"({"GPU_NV2_0_1":"Two NVLinks"})");
  EXPECT_EQ(annotations["GSOC_DEV_0_1"], "8");
  inventory.topology.set_link(0, 1, {.path = topology::PciePath::kSys});
  annotations = inventory.original_annotations();
  EXPECT_EQ(annotations["GPU_TOPOLOGY"], R"({"GPU_SYS_0_1":"Cross CPU socket"})");
  EXPECT_EQ(annotations["GSOC_DEV_0_1"], "1");
}

TEST(Inventory, ListsUnhealthyGpusForTheOriginalExtender) {
  Inventory inventory = rich_inventory(4);
  EXPECT_EQ(inventory.unhealthy_list(), "");
  inventory.gpus[1].unhealthy = inventory.gpus[3].unhealthy = "XID 79";
  EXPECT_EQ(inventory.unhealthy_list(), "1,3");
  EXPECT_THAT(unhealthy_indices(inventory.unhealthy_list()), ElementsAre(1, 3));
}

TEST(Unit, ReadsAndPrints) {
  EXPECT_EQ(Unit::parse("GiB").value().in_mib(), 1024U);
  EXPECT_EQ(Unit::parse("256MiB").value().text(), "256MiB");
  EXPECT_EQ(Unit::parse("1024MiB").value().text(), "GiB");
  EXPECT_EQ(Unit::gib().amount(8), "8GiB");
  EXPECT_EQ(Unit::parse("256MiB").value().amount(3), "768MiB");
  for (const char* wrong : {"", "GB", "0GiB", "-1MiB", "1.5GiB", "9999999999GiB", "2000GiB", "GiBMiB"}) {
    EXPECT_FALSE(Unit::parse(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace tessera::alloc::testing
