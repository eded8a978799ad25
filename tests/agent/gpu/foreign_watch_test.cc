// GPUs that another device plugin allocates.
#include "agent/gpu/foreign_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../base/temporary_directory.h"
#include "../devices/checkpoint_text.h"
#include "../devices/fake_node.h"
#include "agent/gpu/foreign_use.h"
#include "base/file.h"

namespace tessera::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

alloc::Inventory two_gpus() {
  alloc::Inventory inventory;
  inventory.gpus = {{.uuid = "GPU-ce120724", .index = 0, .model = "T4", .memory_mib = 16384},
                    {.uuid = "GPU-71aa0000-1", .index = 1, .model = "T4", .memory_mib = 16384}};
  return inventory;
}

TEST(ForeignUse, FindsAnotherPluginAndTheGpusItAllocated) {
  const auto checkpoint = Checkpoint::parse(kCheckpointFile).value();
  const ForeignUse use = find_foreign_use(checkpoint, two_gpus(), {}, [](const std::string& uid) {
    return uid == "77aa" ? std::string("ml/legacy") : std::string();
  });
  EXPECT_THAT(use.resources, ElementsAre("nvidia.com/gpu"));
  ASSERT_EQ(use.held.size(), 1U);
  EXPECT_THAT(use.held.at("GPU-71aa0000-1"), HasSubstr("pod ml/legacy has it through nvidia.com/gpu"));

  const alloc::Inventory seen = without_foreign(two_gpus(), use);
  EXPECT_TRUE(seen.gpus[0].healthy());
  EXPECT_FALSE(seen.gpus[1].healthy());
  EXPECT_THAT(seen.also_served_as, ElementsAre("nvidia.com/gpu"));
}

TEST(ForeignUse, IgnoresPodsThatHaveEnded) {
  const auto checkpoint = Checkpoint::parse(kCheckpointFile).value();
  const ForeignUse use =
      find_foreign_use(checkpoint, two_gpus(), {}, [](const std::string&) { return std::string(); });
  EXPECT_TRUE(use.held.empty());
  EXPECT_THAT(without_foreign(two_gpus(), use).also_served_as, ElementsAre("nvidia.com/gpu"))
      << "it may allocate GPUs at any time";
}

TEST(ForeignUse, FindsGpusThatAnotherPluginAllocatedUnderOurResourceName) {
  const auto checkpoint = Checkpoint::parse(kCheckpointFile).value();
  const alloc::ResourceNames names({.prefix = "aliyun.com", .whole = "nvidia.com/gpu"});
  const ForeignUse use =
      find_foreign_use(checkpoint, two_gpus(), names, [](const std::string&) { return std::string("ml/x"); });
  EXPECT_TRUE(use.resources.empty());
  EXPECT_THAT(use.overridden, ElementsAre("nvidia.com/gpu"));
  EXPECT_TRUE(use.held.contains("GPU-71aa0000-1"));
}

// Pods that an earlier plugin admitted stay in kubelet's file when the plugin is gone.
TEST(ForeignUse, DoesNotTakePodsOfAnEarlierPluginForAPluginThatRuns) {
  Checkpoint checkpoint;
  checkpoint.entries.push_back({.pod_uid = "77aa",
                                .container = "c",
                                .resource = "aliyun.com/gpu-mem",
                                .ids = {"GPU-71aa0000-1-_-0", "GPU-71aa0000-1-_-1"}});
  checkpoint.registered["aliyun.com/gpu-mem"] = {"ce120724-0", "ce120724-1"};
  const auto no_holder = [](const std::string&) { return std::string(); };
  EXPECT_TRUE(find_foreign_use(checkpoint, two_gpus(), {}, no_holder).overridden.empty());
  checkpoint.registered["aliyun.com/gpu-mem"] = {"GPU-71aa0000-1-_-0", "GPU-71aa0000-1-_-1"};
  EXPECT_THAT(find_foreign_use(checkpoint, two_gpus(), {}, no_holder).overridden,
              ElementsAre("aliyun.com/gpu-mem"));
}

TEST(ForeignHolders, AreTheContainersThatHaveAGpuThroughAnotherPlugin) {
  Checkpoint checkpoint = Checkpoint::parse(kCheckpointFile).value();
  EXPECT_THAT(foreign_holders(checkpoint, two_gpus()),
              ElementsAre(ForeignHolder{.pod_uid = "77aa", .container = "cuda", .gpu = "GPU-71aa0000-1"}));
  checkpoint.entries[1].ids = {"GPU-ce120724::2", "mlx5_0"};
  EXPECT_THAT(foreign_holders(checkpoint, two_gpus()),
              ElementsAre(ForeignHolder{.pod_uid = "77aa", .container = "cuda", .gpu = "GPU-ce120724"}));
}

// kubelet takes any IDs of the original: 20 IDs may belong to all GPUs of a node.
TEST(ForeignUse, APodThatTheOriginalPluginCouldNotServeTookEveryGpuOutOfUse) {
  Checkpoint checkpoint;
  checkpoint.entries.push_back({.pod_uid = "77aa",
                                .container = "c",
                                .resource = "aliyun.com/gpu-mem",
                                .ids = {"GPU-71aa0000-1-_-0", "GPU-ce120724-_-1"}});
  const auto undecided = [](const std::string&) { return std::string("ml/lost"); };
  EXPECT_TRUE(find_foreign_use(checkpoint, two_gpus(), {}, undecided).held.empty());
  // With a running plugin under another resource name, any of the GPUs may be in use.
  const alloc::ResourceNames others({.prefix = "example.com", .whole = ""});
  EXPECT_EQ(find_foreign_use(checkpoint, two_gpus(), others, undecided).held.size(), 2U);
}

class NoWrites final : public RecordWriter {
  void write(const NodePod& /*pod*/, const RecordRepair& /*repair*/, Done<Status> done) override { done({}); }
};

class ForeignWatchTest : public testing::Test {
 protected:
  ForeignWatchTest() { kind.set_inventory(two_gpus()); }
  void write_checkpoint(const std::string& text) const {
    ASSERT_TRUE(write_file(directory / Checkpoint::kFile, text));
  }

  TemporaryDirectory directory;
  FakeNode node{directory.path()};
  Allocations allocations{GpuKind::keys()};
  NoWrites writer;
  GpuKind kind{node.context, allocations, writer, {}};
};

// kubelet's file names the earlier plugin until kubelet has our list.
TEST_F(ForeignWatchTest, ReportsAPluginThatServesOurResourceOnceWeAreRegistered) {
  write_checkpoint(R"({"Data":{"PodDeviceEntries":null,"RegisteredDevices":)"
                   R"({"aliyun.com/gpu-mem":["GPU-71aa0000-1-_-0"]}}})");
  ForeignWatch watch(node.context, kind, directory.path(), std::chrono::milliseconds(0));
  EXPECT_FALSE(watch.update_if_changed(two_gpus(), {}));
  EXPECT_TRUE(node.events().empty());
  EXPECT_TRUE(watch.update_if_changed(two_gpus(), {"aliyun.com/gpu-mem"}));
  EXPECT_FALSE(watch.update_if_changed(two_gpus(), {"aliyun.com/gpu-mem"})) << "reported once";
  ASSERT_EQ(node.events().size(), 1U);
  EXPECT_THAT(node.events().front(), StartsWith("! OtherDevicePlugin Node/gpu-a "));
  EXPECT_THAT(node.events().front(), HasSubstr("serves aliyun.com/gpu-mem on this node"));
  EXPECT_THAT(node.events().front(), HasSubstr("remove one"));
}

// kubelet writes its file before the API server reports the pod, and not again afterwards.
TEST_F(ForeignWatchTest, LooksAgainUntilTheHolderIsKnown) {
  write_checkpoint(kCheckpointFile);
  ForeignWatch watch(node.context, kind, directory.path());
  const ForeignWatch::Registered registered{node.names.memory(), node.names.whole(), node.names.count()};
  watch.update_if_changed(two_gpus(), registered);
  EXPECT_TRUE(watch.use().held.empty());
  alloc::PodSpec pod;
  pod.namespace_name = "ml";
  pod.name = "legacy";
  pod.uid = "77aa";
  pod.containers.resize(1);
  pod.containers[0].name = "cuda";
  node.pods.put(pod, 1, true);
  EXPECT_TRUE(watch.update_if_changed(two_gpus(), registered));
  EXPECT_THAT(watch.use().held.at("GPU-71aa0000-1"), HasSubstr("pod ml/legacy"));
  // Now it has a valid record, so it is in our own ledger.
  pod.containers[0].gpu_limits = {{alloc::GpuResource::kMemory, Quantity::units(2)}};
  alloc::Record record;
  record.containers = {{.container = "cuda", .shares = {{.gpu = "GPU-ce120724", .units = 2}}}};
  pod.annotations[std::string(alloc::key::kAllocation)] = record.json();
  node.pods.put(pod, 2, true);
  EXPECT_TRUE(watch.update_if_changed(two_gpus(), registered));
  EXPECT_FALSE(watch.update_if_changed(two_gpus(), registered));
  EXPECT_THAT(node.events(),
              ElementsAre(StartsWith("! OtherDevicePlugin "), StartsWith("! GpuHeldElsewhere ")));
}

}  // namespace
}  // namespace tessera::agent
