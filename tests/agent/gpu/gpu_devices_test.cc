#include "agent/gpu/gpu_devices.h"

#include <gtest/gtest.h>

#include <set>

#include "agent/devices/plugin_server.h"

namespace tessera::agent {
namespace {

constexpr const char* kUuid = "GPU-5d3c1b2a-81b9-344c-83b7-8333973b21f6";

TEST(GpuIds, NamesAShareAfterItsUuid) {
  GpuIds ids;
  EXPECT_EQ(ids.share(kUuid, 12), "5d3c1b2a-12");
  EXPECT_EQ(ids.whole(kUuid), "5d3c1b2a");
  EXPECT_EQ(ids.gpu_of("5d3c1b2a-3"), kUuid);
  EXPECT_EQ(ids.gpu_of("5d3c1b2a"), kUuid);
}

TEST(GpuIds, DistinguishesGpusWhoseUuidsBeginAlike) {
  const std::string other = "GPU-5d3c1b2a-0000-0000-0000-000000000000";
  GpuIds ids;
  const std::string tag = ids.tag(kUuid);
  const std::string other_tag = ids.tag(other);
  EXPECT_NE(tag, other_tag);
  EXPECT_EQ(ids.gpu_of(other_tag + "-1"), other);
  EXPECT_EQ(ids.gpu_of(tag + "-1"), kUuid);
  GpuIds again;
  (void)again.tag(kUuid);
  EXPECT_EQ(again.tag(other), other_tag) << "tags must not change after a restart";
}

TEST(GpuIds, HasANameForEveryUuid) {
  GpuIds ids;
  for (const char* uuid : {"", "GPU-", "strange", "GPU-XYZ", "MIG-GPU-1/2/3"}) {
    EXPECT_TRUE(GpuIds::is_ours(ids.share(uuid, 0))) << uuid;
    EXPECT_EQ(ids.gpu_of(ids.share(uuid, 7)), uuid);
  }
}

TEST(GpuIds, RecognizesIdsOfOtherPlugins) {
  const GpuIds ids;
  for (const char* id : {kUuid, "GPU-5d3c1b2a-81b9-344c-83b7-8333973b21f6-_-3", "", "0", "nvidia0",
                         "5d3c1b2a-", "5d3c1b2a-x", "5D3C1B2A-1"}) {
    EXPECT_FALSE(GpuIds::is_ours(id)) << id;
    EXPECT_FALSE(ids.gpu_of(id)) << id;
  }
  EXPECT_FALSE(ids.gpu_of("ffffffff-1")) << "this GPU was never on the node";
}

TEST(GpuLists, ContainsNumaNodesAndMarksAllSharesOfAnUnhealthyGpu) {
  alloc::Inventory inventory;
  inventory.gpus = {
      {.uuid = kUuid, .index = 0, .model = "T4", .memory_mib = 2048},
      {.uuid = "GPU-71aa0000", .index = 1, .model = "T4", .memory_mib = 3072, .unhealthy = "XID 79"}};
  inventory.topology = topology::Topology(2);
  inventory.topology.place(1).numa = topology::IndexList::of(1);
  GpuIds ids;
  const GpuLists lists = make_lists(inventory, ids);
  const std::vector<Device> whole{{.id = "5d3c1b2a", .healthy = true, .numa = {}},
                                  {.id = "71aa0000", .healthy = false, .numa = {1}}};
  EXPECT_EQ(lists.whole, whole);
  const std::vector<Device> shares{{.id = "5d3c1b2a-0"},
                                   {.id = "5d3c1b2a-1"},
                                   {.id = "71aa0000-0", .healthy = false, .numa = {1}},
                                   {.id = "71aa0000-1", .healthy = false, .numa = {1}},
                                   {.id = "71aa0000-2", .healthy = false, .numa = {1}}};
  EXPECT_EQ(lists.shares, shares);
}

TEST(GpuLists, DoesNotChangeWhenTheDriverRenumbersItsGpus) {
  alloc::Inventory inventory;
  inventory.gpus = {{.uuid = kUuid, .index = 0, .model = "T4", .memory_mib = 2048},
                    {.uuid = "GPU-71aa0000", .index = 1, .model = "T4", .memory_mib = 2048}};
  alloc::Inventory turned = inventory;
  std::swap(turned.gpus[0].uuid, turned.gpus[1].uuid);
  GpuIds ids;
  const auto names = [](const std::vector<Device>& devices) {
    std::set<std::string> all;
    for (const Device& device : devices) {
      all.insert(device.id);
    }
    return all;
  };
  EXPECT_EQ(names(make_lists(inventory, ids).shares), names(make_lists(turned, ids).shares));
}

TEST(GpuLists, FitsEightGpusOf192GibInUnitsOf256Mib) {
  alloc::Inventory inventory;
  inventory.unit = alloc::Unit::parse("256MiB").value();
  for (unsigned i = 0; i < 8; ++i) {
    inventory.gpus.push_back(
        {.uuid = "GPU-0000000" + std::to_string(i), .index = i, .model = "B200", .memory_mib = 192 * 1024});
  }
  GpuIds ids;
  const GpuLists lists = make_lists(inventory, ids);
  EXPECT_EQ(lists.shares.size(), 8U * 768U);
  EXPECT_LT(check_list_size(lists.shares).value(), 200'000U);
}

}  // namespace
}  // namespace tessera::agent
