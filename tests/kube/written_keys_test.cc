#include "written_keys.h"

#include <gtest/gtest.h>

namespace tessera::kube {

namespace {

std::string change(std::string_view user_agent, std::string_view resource, const std::string& body) {
  return foreign_change({.user_agent = user_agent, .resource = resource, .body = boost::json::parse(body)});
}

TEST(WrittenKeys, AllowsWhatTheTableGivesToTheProgram) {
  EXPECT_EQ(change("tessera-agent/1", "nodes",
                   R"({"metadata":{"resourceVersion":"5","annotations":{"tessera.io/inventory":"{}",
                       "GSOC_DEV_0_1":null},"labels":{"nvidia.com/gpu.count":"8"}}})"),
            "");
  EXPECT_EQ(change("tessera-agent/1", "nodes", R"({"status":{"conditions":[{"type":"GPUsHealthy"}]}})"), "");
  EXPECT_EQ(change("tessera-extender/1", "pods",
                   R"({"kind":"Binding","target":{"name":"gpu-a"},
                       "metadata":{"name":"p","annotations":{"ALIYUN_COM_GPU_MEM_IDX":"0"}}})"),
            "");
}

TEST(WrittenKeys, FindsEveryOtherChange) {
  EXPECT_EQ(change("tessera-agent/1", "nodes", R"({"metadata":{"annotations":{"tessera.io/new":"x"}}})"),
            "annotations tessera.io/new of nodes");
  EXPECT_EQ(change("tessera-agent/1", "nodes", R"({"metadata":{"labels":{"node-role.kubernetes.io/x":""}}})"),
            "labels node-role.kubernetes.io/x of nodes");
  EXPECT_EQ(change("tessera-agent/1", "nodes", R"({"metadata":{"finalizers":[]}})"),
            "metadata.finalizers of nodes");
  EXPECT_EQ(change("tessera-agent/1", "nodes", R"({"spec":{"taints":[]}})"), "spec of nodes");
  EXPECT_EQ(change("tessera-agent/1", "nodes", R"({"status":{"capacity":{"a/b":"1"}}})"),
            "status.capacity of nodes");
  EXPECT_EQ(change("tessera-agent/1", "nodes", R"({"status":{"conditions":[{"type":"Ready"}]}})"),
            "condition Ready of nodes");
}

TEST(WrittenKeys, DistinguishesProgramsAndResources) {
  const std::string record = R"({"metadata":{"annotations":{"tessera.io/allocation":"{}"}}})";
  EXPECT_EQ(
      change("tessera-extender/1", "nodes", R"({"metadata":{"annotations":{"tessera.io/inventory":"x"}}})"),
      "annotations tessera.io/inventory of nodes");
  EXPECT_EQ(change("tessera-agent/1", "nodes", record), "annotations tessera.io/allocation of nodes");
  EXPECT_EQ(change("tessera-agent/1", "pods", record), "");
  EXPECT_EQ(change("tessera-agent/1", "events", record), "");
  EXPECT_EQ(change("another-client", "nodes", record), "");
}

}  // namespace

}  // namespace tessera::kube
