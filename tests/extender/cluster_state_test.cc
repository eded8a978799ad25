#include "extender/cluster_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "../alloc/cluster.h"
#include "../topology/machines.h"

namespace tessera::extender {
namespace {

using alloc::testing::inventory_of;
using alloc::testing::node_with;
using alloc::testing::share_pod;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A node with 16 GPUs whose topology differs with `version`.
alloc::NodeSpec forged_node(const std::string& name, unsigned version) {
  alloc::Inventory inventory = inventory_of(name, std::vector<std::uint32_t>(16, 32));
  inventory.topology = topology::forged(16);
  inventory.topology.socket_mbps = 1 + version;
  return node_with(name, inventory);
}

unsigned version_of(const ClusterState& state, const std::string& name) {
  return state.ledger().view(*state.ledger().find_node(name)).tables->topology().socket_mbps - 1;
}

TEST(ClusterState, BuildsTheTablesOfANodeOncePerRound) {
  ClusterState state({});
  for (unsigned version = 0; version < 50; ++version) {
    state.keep_node(forged_node("a", version));
  }
  EXPECT_EQ(state.ledger().large_tables_built(), 1U);
  EXPECT_EQ(state.delayed_changes(), 49U);
  EXPECT_EQ(version_of(state, "a"), 0U);
  state.keep_node(forged_node("b", 100));
  EXPECT_EQ(version_of(state, "b"), 100U) << "other nodes do not wait";

  EXPECT_THAT(state.end_round(), ElementsAre("a"));
  EXPECT_EQ(version_of(state, "a"), 49U) << "the latest inventory counts";
  EXPECT_EQ(state.ledger().large_tables_built(), 3U);
  EXPECT_THAT(state.end_round(), IsEmpty());
  state.keep_node(forged_node("a", 7));
  EXPECT_EQ(version_of(state, "a"), 7U) << "in a new round it does not wait";
}

TEST(ClusterState, DropsAWaitingInventoryWhenANewerOneIsStoredOrTheNodeIsGone) {
  ClusterState state({});
  state.keep_node(forged_node("a", 1));
  state.keep_node(forged_node("a", 2));
  state.keep_node(forged_node("a", 1));  // needs no new tables
  state.keep_node(forged_node("b", 3));
  state.keep_node(forged_node("b", 4));
  state.forget_node("b");
  EXPECT_THAT(state.end_round(), IsEmpty());
  EXPECT_EQ(version_of(state, "a"), 1U);
  EXPECT_FALSE(state.ledger().find_node("b"));
}

TEST(ClusterState, KeepsANodeThatIsRemovedAndAddedInOneRound) {
  ClusterState state({});
  state.keep_node(forged_node("a", 1));
  state.forget_node("a");
  state.keep_node(forged_node("a", 2));
  EXPECT_FALSE(state.ledger().find_node("a")) << "it waits";
  EXPECT_THAT(state.end_round(), ElementsAre("a"));
  EXPECT_EQ(version_of(state, "a"), 2U);
}

std::size_t heap_bytes() {
  return mallinfo2().uordblks;
}

std::string_view fence_of(const ClusterState& state, const std::string& name) {
  return state.ledger().fence_text(*state.ledger().find_node(name));
}

TEST(ClusterState, ANodeThatComesBackIsFencedWhileItsAgentIsDown) {
  ClusterState state({});
  const alloc::NodeSpec node = node_with("a", inventory_of("a", {32}));
  state.keep_node(node);
  state.keep_agent("a", AgentState::kDown);
  EXPECT_THAT(fence_of(state, "a"), HasSubstr("agent"));
  state.forget_node("a");
  state.keep_node(node);
  EXPECT_THAT(fence_of(state, "a"), HasSubstr("agent"));
  state.keep_agent("a", AgentState::kReady);
  EXPECT_EQ(fence_of(state, "a"), "");
}

// Nodes of a cluster that grows and shrinks have a new name each time.
TEST(ClusterState, ForgetsTheAgentsOfNodesThatAreGone) {
  ClusterState state({});
  const alloc::NodeSpec node = node_with("a", inventory_of("a", {32}));
  state.keep_node(node);
  state.keep_agent("a", AgentState::kDown);
  state.keep_agent("a", AgentState::kGone);
  EXPECT_THAT(fence_of(state, "a"), HasSubstr("agent")) << "the node had an agent before";
  state.forget_node("a");
  state.keep_node(node);
  EXPECT_EQ(fence_of(state, "a"), "") << "this node had none";

  const std::size_t before = heap_bytes();
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = fmt::format("node-with-a-long-name-{}", i);
    state.keep_agent(name, AgentState::kDown);
    state.keep_agent(name, AgentState::kGone);  // usually after the node
  }
  EXPECT_LT(heap_bytes(), before + (1U << 20U));
}

// 500 such pods, five at a time, filled the memory of the extender.
TEST(ClusterState, KeepsNoTextOfPodsThatAreGone) {
  ClusterState state({});
  state.keep_node(forged_node("a", 1));
  const std::size_t before = heap_bytes();
  for (int i = 0; i < 200; ++i) {
    alloc::PodSpec pod = share_pod(fmt::format("p{}", i), 1);
    pod.annotations["tessera.io/gpu-model"] = fmt::format("{}{}", i, std::string(196'000, 'x'));
    state.keep_pod(pod);
    EXPECT_EQ(state.waiting_pods(), 1U);
    EXPECT_FALSE(state.find_waiting(pod.uid)->request);
    state.forget_pod(pod.uid);
  }
  EXPECT_LT(heap_bytes(), before + (1U << 20U));
}

TEST(ClusterState, KeepsALimitedAmountOfTextOfWaitingPods) {
  ClusterState state({});
  const std::size_t before = heap_bytes();
  constexpr int kPods = 6'000;
  int kept = 0;
  for (int i = 0; i < kPods; ++i) {
    alloc::PodSpec pod = share_pod(fmt::format("p{}", i), 1);
    pod.annotations["tessera.io/gpu-model"] = fmt::format("{}{}", i, std::string(4'000, 'x'));
    state.keep_pod(pod);
    kept += state.find_waiting(pod.uid) != nullptr ? 1 : 0;
  }
  EXPECT_EQ(state.waiting_pods(), std::size_t{kPods}) << "all are counted";
  EXPECT_GT(kept, 4'000);
  EXPECT_LT(kept, kPods);
  state.keep_pod(share_pod("plain", 1));
  EXPECT_NE(state.find_waiting("uid-plain"), nullptr) << "a request without lists is always kept";
  EXPECT_LT(heap_bytes(), before + (32U << 20U));
  for (int i = 0; i < kPods; ++i) {
    state.forget_pod(fmt::format("uid-p{}", i));
  }
  EXPECT_LT(heap_bytes(), before + (1U << 20U));
  alloc::PodSpec pod = share_pod("next", 1);
  pod.annotations["tessera.io/gpu-model"] = std::string(4'000, 'x');
  state.keep_pod(pod);
  EXPECT_NE(state.find_waiting(pod.uid), nullptr);
}

}  // namespace
}  // namespace tessera::extender
