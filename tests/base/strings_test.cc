#include "base/strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::ElementsAre;

TEST(Strings, TrimRemovesWhiteSpaceFromBothEnds) {
  EXPECT_EQ(trim(" \t a b \r\n"), "a b");
  EXPECT_EQ(trim(" \n "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Strings, SplitKeepsEmptyParts) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split("a,", ','), ElementsAre("a", ""));
}

TEST(Strings, SplitWordsDropsEmptyWords) {
  EXPECT_THAT(split_words("  GPU0\tX  NV1 \n"), ElementsAre("GPU0", "X", "NV1"));
  EXPECT_THAT(split_words("   "), ElementsAre());
}

TEST(Strings, ParseIntAcceptsOnlyAnInteger) {
  EXPECT_EQ(parse_int("42"), 42);
  EXPECT_EQ(parse_int("-1"), -1);
  EXPECT_EQ(parse_int("9223372036854775807"), 9223372036854775807LL);
  for (const char* bad : {"", " 1", "1 ", "+1", "1.0", "x3", "3x", "9223372036854775808", "0x10"}) {
    EXPECT_FALSE(parse_int(bad).has_value()) << bad;
  }
}

TEST(Strings, JoinWordsUsesCommasAndAnd) {
  EXPECT_EQ(join_words({}), "");
  EXPECT_EQ(join_words({"a"}), "a");
  EXPECT_EQ(join_words({"a", "b"}), "a and b");
  EXPECT_EQ(join_words({"a", "b", "c"}), "a, b and c");
}

TEST(Strings, InQuotesEscapesUntrustedText) {
  EXPECT_EQ(in_quotes("x3"), "\"x3\"");
  EXPECT_EQ(in_quotes("a\"b\\c\n\x1b[31m"), "\"a\\\"b\\\\c\\x0a\\x1b[31m\"");
  EXPECT_EQ(in_quotes("abcdef", 3), "\"abc…\"");
}

TEST(Strings, InQuotesNeverCutsInsideACharacter) {
  EXPECT_EQ(in_quotes("aä", 2), "\"a…\"");
  EXPECT_EQ(in_quotes("aä", 3), "\"aä\"");
}

}  // namespace
}  // namespace tessera
