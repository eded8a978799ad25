#include "agent/devices/allocations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::agent {
namespace {

using testing::ElementsAre;

// The file format since the first release. A new version must read the files of older ones.
constexpr const char* kGpuFile =
    R"({"v":1,"allocations":[{"namespace":"ml","pod":"a","uid":"uid-a","container":"main",)"
    R"("grants":[{"gpu":"GPU-1","mem":3,"core":10},{"gpu":"GPU-2","whole":true}],)"
    R"("ids":{"aliyun.com/gpu-mem":["5d3c1b2a-0","5d3c1b2a-1"]},"cdi":{"aliyun.com/gpu-mem":"uid-a_main"},)"
    R"("fixed":"/dev/nvidia0","fault":"no libcuda","held":"its GPU is unhealthy","guessed":true,"started":true}]})"
    "\n";

TEST(Allocations, KeepTheFileFormat) {
  Allocations allocations({.device = "gpu", .units = "mem"});
  const Status read = allocations.parse(kGpuFile);
  ASSERT_TRUE(read) << read.error().text();
  const Allocation* given = allocations.find("uid-a", "main");
  ASSERT_NE(given, nullptr);
  EXPECT_THAT(given->shares, ElementsAre(DeviceShare{.device = "GPU-1", .units = 3, .core_percent = 10},
                                         DeviceShare{.device = "GPU-2", .whole = true}));
  EXPECT_EQ(given->cdi_names.at("aliyun.com/gpu-mem"), "uid-a_main");
  EXPECT_EQ(given->start_block, "its GPU is unhealthy");
  EXPECT_TRUE(given->guessed);
  EXPECT_TRUE(given->started);
  EXPECT_EQ(allocations.json(), kGpuFile);
}

TEST(Allocations, RejectTheFileOfAnotherKind) {
  Allocations things({});
  EXPECT_FALSE(things.parse(kGpuFile));
  EXPECT_EQ(things.size(), 0U);
}

TEST(Allocations, NameTheKnownPodsThatHaveADevice) {
  Allocations allocations({});
  const std::vector<DeviceShare> shares{{.device = "thing1", .whole = true}};
  allocations.record({.pod = {"ml", "a"}, .pod_uid = "uid-a", .container = "x", .shares = shares});
  allocations.record({.pod = {"ml", "a"}, .pod_uid = "uid-a", .container = "y", .shares = shares});
  allocations.record({.pod = {}, .pod_uid = unknown_uid("r", {"1"}), .container = "", .shares = shares});
  const auto holders = allocations.holders_of("thing1");
  ASSERT_EQ(holders.size(), 1U);
  EXPECT_EQ(holders.front().name, "a");
  EXPECT_EQ(holders.front().uid, "uid-a");
  EXPECT_TRUE(allocations.holders_of("thing2").empty());
}

}  // namespace
}  // namespace tessera::agent
