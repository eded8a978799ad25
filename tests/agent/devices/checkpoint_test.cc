#include "agent/devices/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint_text.h"
#include "kube/base64.h"
#include "proto/deviceplugin_v1beta1.pb.h"

namespace tessera::agent {
namespace {

using testing::ElementsAre;

TEST(Checkpoint, ReadsWhichContainerHasWhichIds) {
  const auto checkpoint = Checkpoint::parse(kCheckpointFile);
  ASSERT_TRUE(checkpoint) << checkpoint.error().text();
  ASSERT_EQ(checkpoint->entries.size(), 2U);
  EXPECT_THAT(checkpoint->entries[0].ids, ElementsAre("ce120724-2", "ce120724-3", "ce120724-9"));
  const auto holders = checkpoint->holders("aliyun.com/gpu-mem", checkpoint->entries[0].ids);
  ASSERT_EQ(holders.size(), 1U);
  EXPECT_EQ(holders[0]->pod_uid, "b2b4");
  EXPECT_TRUE(checkpoint->holders("aliyun.com/gpu", checkpoint->entries[0].ids).empty());
  EXPECT_TRUE(checkpoint->holders("aliyun.com/gpu-mem", {"ce120724-2"}).empty());
}

TEST(Checkpoint, DecodesTheResponseOfAContainer) {
  v1beta1::ContainerAllocateResponse response;
  (*response.mutable_envs())["NVIDIA_VISIBLE_DEVICES"] = "void";
  response.add_devices()->set_host_path("/dev/nvidia3");
  response.add_cdi_devices()->set_name("tessera.io/gpu=b2b4_main");
  auto checkpoint = Checkpoint::parse(kCheckpointFile);
  ASSERT_TRUE(checkpoint);
  CheckpointEntry entry = *checkpoint->find("b2b4", "main", "aliyun.com/gpu-mem");
  EXPECT_FALSE(entry.decode_response()) << "the response is truncated";
  entry.response = kube::encode_base64(response.SerializeAsString());
  const auto handed = entry.decode_response();
  ASSERT_TRUE(handed) << handed.error().text();
  EXPECT_THAT(handed->env, ElementsAre(std::pair("NVIDIA_VISIBLE_DEVICES", "void")));
  ASSERT_EQ(handed->nodes.size(), 1U);
  EXPECT_EQ(handed->nodes[0].host_path, "/dev/nvidia3");
  EXPECT_THAT(handed->cdi_devices, ElementsAre("tessera.io/gpu=b2b4_main"));
  for (const char* text : {"", "?", "AAAA"}) {
    entry.response = text;
    EXPECT_FALSE(entry.decode_response()) << text;
  }
  EXPECT_EQ(checkpoint->find("b2b4", "other", "aliyun.com/gpu-mem"), nullptr);
}

TEST(Checkpoint, FailsWhenItCannotBeRead) {
  for (
      const char* text :
      {"", "{}", R"({"Data":[]})", R"({"Data":{"PodDeviceEntries":[{"PodUID":1}]}})",
       R"({"Data":{"PodDeviceEntries":[{"PodUID":"a","ContainerName":"b","ResourceName":"c","DeviceIDs":["x"]}]}})"}) {
    EXPECT_FALSE(Checkpoint::parse(text)) << text;
  }
  EXPECT_EQ(Checkpoint::read("/nowhere").error().code(), ErrorCode::kNotFound);
  EXPECT_TRUE(Checkpoint::parse(R"({"Data":{"PodDeviceEntries":null,"RegisteredDevices":null}})"));
}

}  // namespace
}  // namespace tessera::agent
