#include "cli/output/json_print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>

#include "base/json_reader.h"
#include "cli/output/yaml_print.h"

namespace tessera::cli {
namespace {

namespace json = boost::json;
using ::testing::MatchesRegex;

TEST(NumberText, IsPlain) {
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(-0.0), "0");
  EXPECT_EQ(number_text(77.0 / 15), "5.133333333333334");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(-2.5), "-2.5");
  EXPECT_EQ(number_text(1e15), "1000000000000000");
  EXPECT_EQ(number_text(1e-6), "0.000001");
}

TEST(NumberText, HasAnExponentOnlyForVeryLargeAndVerySmallNumbers) {
  EXPECT_EQ(number_text(1e21), "1.0e+21");
  EXPECT_EQ(number_text(2.5e-7), "2.5e-07");
  EXPECT_EQ(number_text(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(number_text(std::numeric_limits<double>::quiet_NaN()), "null");
}

// Numbers of every size: random bits, and random numbers near those that commands print.
std::vector<double> numbers() {
  std::mt19937_64 random(18);
  std::vector<double> all{std::numeric_limits<double>::max(), std::numeric_limits<double>::denorm_min(),
                          std::nextafter(1e21, 0), std::nextafter(1e-6, 0), 1e-6};
  for (int i = 0; i < 20'000; ++i) {
    if (const double bits = std::bit_cast<double>(random()); std::isfinite(bits)) {
      all.push_back(bits);
    }
    all.push_back(std::uniform_real_distribution<double>(-100'000, 100'000)(random));
    all.push_back(static_cast<double>(random() % 1000) / static_cast<double>(1 + random() % 96));
  }
  return all;
}

TEST(NumberText, ParsesBackAndIsPlainInTheUsualRange) {
  for (const double number : numbers()) {
    const std::string text = number_text(number);
    EXPECT_TRUE(json::parse(text).is_number()) << text;
    // Not from json::parse(), which is off by one bit for some numbers with many digits.
    double back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    EXPECT_EQ(back, number) << text;
    const double size = std::abs(number);
    if (size == 0 || (size >= 1e-6 && size < 1e21)) {
      EXPECT_THAT(text, MatchesRegex("-?[0-9]+(\\.[0-9]+)?"));
    } else {
      EXPECT_THAT(text, MatchesRegex("-?[0-9]\\.[0-9]+e[+-][0-9]+"));
    }
  }
}

TEST(PrettyJson, PrintsEveryNumberLikeNumberText) {
  const json::value value{
      {"share", 0.5}, {"none", 0.0}, {"list", {1.25, 3, json::array{}}}, {"o", json::object{}}};
  EXPECT_EQ(
      pretty_json(value),
      "{\n    \"share\": 0.5,\n    \"none\": 0,\n    \"list\": [\n        1.25,\n        3,\n        []\n"
      "    ],\n    \"o\": {}\n}\n");
  EXPECT_EQ(compact_json(value), R"({"share":0.5,"none":0,"list":[1.25,3,[]],"o":{}})");
  EXPECT_EQ(yaml_text(value), "share: 0.5\nnone: 0\nlist:\n  - 1.25\n  - 3\n  - []\no: {}\n");
}

}  // namespace
}  // namespace tessera::cli
