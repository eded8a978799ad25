#include "agent/devices/drain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_node.h"

namespace tessera::agent {
namespace {

using namespace std::chrono_literals;

constexpr const char* kNode = "/api/v1/nodes/gpu-a";

class DrainTest : public ::testing::Test {
 protected:
  DrainTest() { node_.cluster.put(kNode, R"({"metadata":{"annotations":{"other":"stays"}}})"); }

  void begin(std::chrono::milliseconds at_most) {
    drain_.begin(at_most, [this] { ended_ = true; });
  }
  std::string annotation(const char* name) { return node_.cluster.text(kNode, "annotations", name); }
  std::string draining() { return annotation("tessera.io/draining"); }
  // Writes the acknowledgement, as the extender does.
  void acknowledge(const std::string& value) {
    node_.cluster.change(kNode,
                         R"({"metadata":{"annotations":{"tessera.io/draining-seen":")" + value + R"("}}})");
  }
  void put_pod(const char* uid, alloc::ContainerState state) {
    alloc::PodSpec pod;
    pod.namespace_name = "ml";
    pod.name = uid;
    pod.uid = uid;
    pod.node_name = "gpu-a";
    alloc::ContainerSpec container;
    container.name = "main";
    container.state = state;
    container.gpu_limits.emplace_back(alloc::GpuResource::kMemory, Quantity::parse("3").value());
    pod.containers.push_back(container);
    node_.pods.put(pod, ++version_, true);
  }

  FakeNode node_;
  Drain drain_{node_.context};
  bool ended_ = false;
  std::uint64_t version_ = 10;
};

TEST_F(DrainTest, WaitsForTheAcknowledgementOfThisEnd) {
  acknowledge("of an earlier end");
  begin(60s);
  node_.cluster.run_until([&] { return draining() != "-"; });
  EXPECT_EQ(annotation("tessera.io/draining-seen"), "-") << "an earlier acknowledgement is removed";
  EXPECT_EQ(annotation("other"), "stays");
  acknowledge("something else");
  node_.cluster.run_for(300ms);
  EXPECT_FALSE(ended_);
  acknowledge(draining());
  node_.cluster.run_until([&] { return ended_; });
  EXPECT_NE(draining(), "-") << "the next agent removes it";
}

TEST_F(DrainTest, WaitsForTheAdmissionOfPodsThatAreBound) {
  put_pod("late", alloc::ContainerState::kNotStarted);
  begin(60s);
  node_.cluster.run_until([&] { return draining() != "-"; });
  acknowledge(draining());
  node_.cluster.run_for(400ms);
  EXPECT_FALSE(ended_);
  put_pod("late", alloc::ContainerState::kRunning);
  node_.cluster.run_until([&] { return ended_; });
}

TEST_F(DrainTest, EndsInTimeIfNobodyAnswers) {
  begin(300ms);
  node_.cluster.run_until([&] { return ended_; });
  EXPECT_NE(draining(), "-");
}

TEST_F(DrainTest, EndsInTimeIfTheApiServerRefuses) {
  node_.cluster.set_intercept([](const TestCluster::Seen& /*seen*/) -> std::optional<http::Response> {
    return TestCluster::refusal(403, "Forbidden");
  });
  begin(300ms);
  node_.cluster.run_until([&] { return ended_; });
}

TEST_F(DrainTest, TheNextAgentRemovesTheAnnouncementOnceItServesAlone) {
  node_.cluster.change(
      kNode, R"({"metadata":{"annotations":{"tessera.io/draining":"x","tessera.io/draining-seen":"x"}}})");
  drain_.check(false, true);
  drain_.check(true, false);  // the earlier agent still runs
  drain_.check(true, true);   // kubelet may not have noticed its end yet
  node_.cluster.run_for(100ms);
  EXPECT_EQ(draining(), "x");
  EXPECT_TRUE(drain_.check(true, true));
  node_.cluster.run_until([&] { return draining() == "-"; });
  EXPECT_EQ(annotation("tessera.io/draining-seen"), "-");
  EXPECT_EQ(annotation("other"), "stays");
  const std::size_t requests = node_.cluster.seen().size();
  EXPECT_FALSE(drain_.check(true, true));
  node_.cluster.run_for(50ms);
  EXPECT_EQ(node_.cluster.seen().size(), requests) << "once is enough";
}

TEST_F(DrainTest, RetriesToRemoveTheAnnouncement) {
  node_.cluster.change(kNode, R"({"metadata":{"annotations":{"tessera.io/draining":"x"}}})");
  bool refuse = true;
  node_.cluster.set_intercept([&](const TestCluster::Seen& seen) -> std::optional<http::Response> {
    return refuse && seen.method == "PATCH" ? std::optional(TestCluster::refusal(403, "Forbidden"))
                                            : std::nullopt;
  });
  drain_.check(true, true);
  drain_.check(true, true);
  node_.cluster.run_until([&] { return node_.cluster.count("PATCH") == 1; });
  node_.cluster.run_for(50ms);
  refuse = false;
  drain_.check(true, true);
  node_.cluster.run_until([&] { return draining() == "-"; });
}

// Otherwise the node would be opened although this agent ends.
TEST_F(DrainTest, AnAgentThatEndsRemovesNoAnnouncement) {
  begin(60s);
  node_.cluster.run_until([&] { return draining() != "-"; });
  drain_.check(true, true);
  drain_.check(true, true);
  node_.cluster.run_for(200ms);
  EXPECT_NE(draining(), "-");
}

}  // namespace
}  // namespace tessera::agent
