#include "extender/node_list.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace tessera::extender {
namespace {

using alloc::NodeId;
using ::testing::ElementsAre;

std::string node_name(unsigned i) {
  return fmt::format("gpu-node-{}.zone-{}.example", i, i % 7);
}

class NodeListTest : public ::testing::Test {
 protected:
  const NodeList* read(const std::string& text) {
    text_ = json::PaddedBuffer(text);
    return lists_.read(text_.view());
  }

  const NodeList* read(const std::vector<unsigned>& nodes) {
    std::string text;
    for (const unsigned i : nodes) {
      text += fmt::format("{}\"{}\"", text.empty() ? "" : ",", node_name(i));
    }
    return read(text);
  }

  NodeIndex index_;
  NodeLists lists_{index_};
  json::PaddedBuffer text_;
};

TEST_F(NodeListTest, ResolvesNamesToIds) {
  index_.put("a", NodeId{7});
  index_.put("b", NodeId{0});
  const NodeList* list = read(R"("b","unknown","a","")");
  ASSERT_NE(list, nullptr);
  EXPECT_THAT(list->ids(), ElementsAre(NodeId{0}, kUnknownNode, NodeId{7}, kUnknownNode));
  EXPECT_EQ(list->unknown(), 2U);
  EXPECT_EQ(list->quoted(text_.text(), 1, 2), R"("unknown")");
  EXPECT_EQ(list->quoted(text_.text(), 0, 4), text_.text());
}

TEST_F(NodeListTest, RejectsTextThatIsNotAListOfNames) {
  for (const char* text :
       {"a", "\"a", "\"a\",", ",\"a\"", "\"a\" ,\"b\"", "\"a\"\"b\"", "[\"a\"]", "1", "\"a\\\""}) {
    EXPECT_EQ(read(text), nullptr) << text;
  }
}

TEST_F(NodeListTest, RejectsNamesThatNeedDecoding) {
  index_.put("a", NodeId{1});
  for (const char* text : {R"("a","\u0061")", R"("a\","b")", "\"\xC3\xA9\"", "\"a\tb\""}) {
    EXPECT_EQ(read(text), nullptr) << text;
  }
  const std::vector<std::string_view> names{"a", "quote\"", "a"};
  json::PaddedBuffer text;
  const NodeList* list = lists_.write(names, text);
  EXPECT_THAT(list->ids(), ElementsAre(NodeId{1}, kUnknownNode, NodeId{1}));
  EXPECT_EQ(text.text(), R"("a","quote\"","a")");
  EXPECT_EQ(list->quoted(text.text(), 1, 2), R"("quote\"")");
}

// kube-scheduler shuffles, omits and re-adds names, and nodes are added and removed between its
// calls.
TEST_F(NodeListTest, FindsEveryNodeInAnyOrderWhileNodesChange) {
  constexpr unsigned kNodes = 700;
  std::mt19937 random(5);
  std::vector<bool> here(kNodes, false);
  for (int round = 0; round < 200; ++round) {
    for (int change = 0; change < 40; ++change) {
      const unsigned i = static_cast<unsigned>(random()) % kNodes;
      if (here[i]) {
        index_.erase(node_name(i));
      } else {
        index_.put(node_name(i), NodeId{i});
      }
      here[i] = !here[i];
    }
    std::vector<unsigned> nodes;
    for (unsigned i = 0; i < kNodes; ++i) {
      if (round % 3 != 0 || random() % 4 != 0) {
        nodes.push_back(i);
      }
    }
    if (round % 5 == 0) {
      std::ranges::shuffle(nodes, random);
    } else {
      std::ranges::rotate(nodes, nodes.begin() + static_cast<int>(random() % nodes.size()));
    }
    for (int again = 0; again < 2; ++again) {
      const NodeList* list = read(nodes);
      ASSERT_NE(list, nullptr);
      ASSERT_EQ(list->size(), nodes.size());
      for (std::size_t k = 0; k < nodes.size(); ++k) {
        ASSERT_EQ(list->ids()[k], here[nodes[k]] ? NodeId{nodes[k]} : kUnknownNode) << node_name(nodes[k]);
        ASSERT_EQ(list->quoted(text_.text(), k, k + 1), fmt::format("\"{}\"", node_name(nodes[k])));
      }
    }
  }
  EXPECT_EQ(index_.size(), static_cast<std::size_t>(std::ranges::count(here, true)));
}

// The same text must not bring back a node that was removed or has another ID now.
TEST_F(NodeListTest, DropsCachedListsWhenANodeChanges) {
  index_.put("a", NodeId{1});
  EXPECT_THAT(read(R"("a","b")")->ids(), ElementsAre(NodeId{1}, kUnknownNode));
  index_.put("b", NodeId{2});
  EXPECT_THAT(read(R"("a","b")")->ids(), ElementsAre(NodeId{1}, NodeId{2}));
  index_.put("a", NodeId{3});
  EXPECT_THAT(read(R"("a","b")")->ids(), ElementsAre(NodeId{3}, NodeId{2}));
  index_.erase("b");
  EXPECT_THAT(read(R"("a","b")")->ids(), ElementsAre(NodeId{3}, kUnknownNode));
}

// Pieces of a known list are not parsed name by name, but their ends and the text between them are.
TEST_F(NodeListTest, ReadsPiecesOfAKnownListCutAnywhere) {
  constexpr unsigned kNodes = 60;
  std::vector<unsigned> known;
  for (unsigned i = 0; i < kNodes; ++i) {
    known.push_back(i);
    if (i % 9 != 0) {
      index_.put(node_name(i), NodeId{i});
    }
  }
  ASSERT_NE(read(known), nullptr);
  for (unsigned begin = 0; begin < kNodes; ++begin) {
    for (unsigned end = begin + 1; end <= kNodes; ++end) {
      // The end of the list, a piece from its middle, a new name, and the piece again.
      std::vector<unsigned> nodes{known.begin() + static_cast<int>(end), known.end()};
      nodes.insert(nodes.end(), known.begin() + static_cast<int>(begin),
                   known.begin() + static_cast<int>(end));
      nodes.push_back(1'000 + begin);
      nodes.insert(nodes.end(), known.begin() + static_cast<int>(begin),
                   known.begin() + static_cast<int>(end));
      const NodeList* list = read(nodes);
      ASSERT_NE(list, nullptr);
      ASSERT_EQ(list->size(), nodes.size());
      std::size_t unknown = 0;
      for (std::size_t k = 0; k < nodes.size(); ++k) {
        const bool here = nodes[k] < kNodes && nodes[k] % 9 != 0;
        unknown += here ? 0 : 1;
        ASSERT_EQ(list->ids()[k], here ? NodeId{nodes[k]} : kUnknownNode);
        ASSERT_EQ(list->quoted(text_.text(), k, k + 1), fmt::format("\"{}\"", node_name(nodes[k])));
      }
      ASSERT_EQ(list->unknown(), unknown);
    }
  }
}

TEST_F(NodeListTest, DetectsInvalidTextNextToPiecesOfAKnownList) {
  index_.put("a", NodeId{1});
  index_.put("b", NodeId{2});
  index_.put("c", NodeId{3});
  ASSERT_NE(read(R"("a","b","c")"), nullptr);
  for (const char* text : {R"("a"x"b","c")",
                           R"("a","b","c")"
                           ",",
                           R"("a","b","c)", R"("a","b","c"])", R"("a","b""c")", R"("a","b", "c")",
                           R"("b","c","\u0061")", "\"b\",\"c\",\"\xC3\xA9\"", R"("a","b"x)"}) {
    EXPECT_EQ(read(text), nullptr) << text;
  }
  EXPECT_THAT(read(R"("b","c","cc","a","b")")->ids(),
              ElementsAre(NodeId{2}, NodeId{3}, kUnknownNode, NodeId{1}, NodeId{2}));
}

TEST_F(NodeListTest, DistinguishesNamesWithACommonPrefix) {
  index_.put("gpu-1", NodeId{1});
  index_.put("gpu-10", NodeId{10});
  EXPECT_THAT(read(R"("gpu-1","gpu-10","gpu-100","gpu-")")->ids(),
              ElementsAre(NodeId{1}, NodeId{10}, kUnknownNode, kUnknownNode));
  EXPECT_THAT(read(R"("gpu-10","gpu-1")")->ids(), ElementsAre(NodeId{10}, NodeId{1}));
}

}  // namespace
}  // namespace tessera::extender
