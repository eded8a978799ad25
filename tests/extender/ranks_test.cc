#include "extender/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../alloc/cluster.h"
#include "extender/rank_cache.h"

namespace tessera::extender {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Ranks, FollowTheOrderOfScoresAndAreEqualForEqualScores) {
  Ranks ranks;
  EXPECT_THAT(ranks.of(std::vector<std::int64_t>{70, -1, 70, 3, 9'000'000'000'000'000}),
              ElementsAre(2, 0, 2, 1, 3));
  EXPECT_EQ(ranks.distinct(), 4U);
  EXPECT_THAT(ranks.of(std::vector<std::int64_t>{}), IsEmpty());
}

TEST(Ranks, MatchAFullSortOfRandomScores) {
  std::mt19937_64 random(7);  // NOLINT: the same numbers each time
  Ranks ranks;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::int64_t> scores(static_cast<std::size_t>(random() % 3000));
    for (std::int64_t& score : scores) {
      score = static_cast<std::int64_t>(random() % (round % 2 == 0 ? 20 : std::uint64_t{1} << 62U)) - 1;
    }
    std::vector<std::int64_t> sorted = scores;
    std::ranges::sort(sorted);
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    const auto got = ranks.of(scores);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      ASSERT_EQ(got[i], std::ranges::lower_bound(sorted, scores[i]) - sorted.begin());
    }
  }
}

TEST(RankCache, ReturnsTheSameRanksAsAFreshPlacerAfterEveryChange) {
  using namespace alloc::testing;
  alloc::Ledger ledger;
  alloc::Placer placer(ledger);
  RankCache cache;
  std::mt19937_64 random(3);  // NOLINT: the same numbers each time
  std::vector<alloc::NodeId> nodes;
  for (int i = 0; i < 30; ++i) {
    ledger.upsert_node(node_of(fmt::format("n{}", i), {16, 16}));
  }
  for (int step = 0; step < 400; ++step) {
    const std::string node = fmt::format("n{}", random() % 30);
    const std::string pod = fmt::format("p{}", random() % 60);
    switch (random() % 4) {
      case 0:
        ledger.upsert_pod(bound_share(pod, static_cast<std::uint32_t>(1 + random() % 8), node,
                                      static_cast<unsigned>(random() % 2)));
        break;
      case 1:
        ledger.remove_pod("uid-" + pod);
        break;
      case 2:
        ledger.remove_node(node);
        break;
      default:
        ledger.upsert_node(node_of(node, {static_cast<std::uint32_t>(8 + random() % 9), 16}));
    }
    nodes = ledger.nodes_by_name();
    const alloc::Request request = request_of(share_pod("ask", static_cast<std::int64_t>(1 + random() % 10)));
    std::vector<alloc::Score> scores(nodes.size());
    alloc::Placer(ledger).score(request, nodes, scores);  // without a cache
    scores.push_back(alloc::kDoesNotFit);
    Ranks ranks;
    const std::span<const std::uint32_t> wanted = ranks.of(scores);
    const RankCache::NodeRanks got = cache.ranks_of(ledger, placer, request);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      ASSERT_EQ(got.ranks[raw(nodes[i])], wanted[i]) << "step " << step << ", " << ledger.node_name(nodes[i]);
    }
    ASSERT_EQ(got.best + 1, ranks.distinct());
  }
}

}  // namespace
}  // namespace tessera::extender
