#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace tessera {
namespace {

constexpr std::array<std::string_view, 10> kCommands = {
    "inspect", "top", "why", "check", "topo", "inventory", "savings", "simulate", "serve", "completion"};

std::string suggested(std::string_view word) {
  return std::string(nearest_name(word, kCommands).value_or("-"));
}

TEST(NearestName, FindsTheNameWithTheFewestEdits) {
  EXPECT_EQ(suggested("inspct"), "inspect");    // a letter is missing
  EXPECT_EQ(suggested("inspectt"), "inspect");  // one too many
  EXPECT_EQ(suggested("chack"), "check");       // a wrong letter
  EXPECT_EQ(suggested("wyh"), "why");           // two neighbours are swapped
  EXPECT_EQ(suggested("tpo"), "top");
  EXPECT_EQ(suggested("simluaet"), "simulate");  // two swaps
  EXPECT_EQ(suggested("CHECK"), "check");
  EXPECT_EQ(suggested("wy"), "why");
}

TEST(NearestName, SuggestsNothingForAWordThatIsFarFromEveryName) {
  EXPECT_EQ(suggested(""), "-");
  EXPECT_EQ(suggested("x"), "-");
  EXPECT_EQ(suggested("get"), "-");
  EXPECT_EQ(suggested("delete"), "-");
  EXPECT_EQ(suggested("cmplt"), "-");  // five edits from completion
  EXPECT_EQ(nearest_name("top", {}), std::nullopt);
}

TEST(DidYouMean, IsTheEndOfAMessage) {
  EXPECT_EQ(did_you_mean("wyh", kCommands), "; did you mean why?");
  EXPECT_EQ(did_you_mean("delete", kCommands), "");
}

TEST(NearestName, PrefersTheFirstOfEquallyNearNames) {
  constexpr std::array<std::string_view, 2> kBoth = {"spread1", "spread2"};
  EXPECT_EQ(nearest_name("spread", kBoth), "spread1");
}

TEST(NearestName, DoesNotCompareVeryLongWords) {
  const std::string longest(kMostNameBytes, 'a');
  const std::string too_long(kMostNameBytes + 1, 'a');
  const std::array<std::string_view, 2> known = {too_long, longest};
  EXPECT_EQ(nearest_name(longest, known), longest);
  EXPECT_EQ(nearest_name(too_long, known), std::nullopt);
}

}  // namespace
}  // namespace tessera
