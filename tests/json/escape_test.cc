#include "json/escape.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <limits>

namespace tessera::json {
namespace {

std::string quoted_json(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

// Parses the JSON string with another library.
std::string read_back(const std::string& json) {
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(json, error);
  EXPECT_FALSE(error) << json;
  return error ? std::string() : std::string(value.as_string());
}

TEST(Escape, DoesNotChangeOrdinaryText) {
  EXPECT_EQ(quoted_json("gpu-node-0001.example"), "\"gpu-node-0001.example\"");
  EXPECT_EQ(quoted_json(""), "\"\"");
  EXPECT_EQ(quoted_json("ä€😀"), "\"ä€😀\"");
}

TEST(Escape, EscapesQuotesBackslashesAndControlCharacters) {
  EXPECT_EQ(quoted_json("a\"b\\c\n\r\t\b\x01\x1f\x7f"),
            "\"a\\\"b\\\\c\\n\\r\\t\\u0008\\u0001\\u001f\\u007f\"");
}

TEST(Escape, ProducesValidJsonForEveryByte) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    EXPECT_EQ(read_back(quoted_json(text)), byte < 0x80 ? text : "\xEF\xBF\xBD") << byte;
  }
}

TEST(Escape, ProducesValidJsonForEveryPairOfBytes) {
  for (int first = 0x7F; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text{static_cast<char>(first), static_cast<char>(second)};
      const std::string back = read_back(quoted_json(text));
      if (first >= 0xC2 && first <= 0xDF && second >= 0x80 && second <= 0xBF) {
        EXPECT_EQ(back, text);
      }
    }
  }
}

TEST(Escape, ReplacesInvalidUtf8) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(quoted_json("a\xC3"), "\"a" + bad + "\"");                              // truncated
  EXPECT_EQ(quoted_json("\xC0\xAF"), "\"" + bad + bad + "\"");                      // overlong
  EXPECT_EQ(quoted_json("\xED\xA0\x80"), "\"" + bad + bad + bad + "\"");            // a surrogate
  EXPECT_EQ(quoted_json("\xF4\x90\x80\x80"), "\"" + bad + bad + bad + bad + "\"");  // beyond U+10FFFF
  EXPECT_EQ(quoted_json("\xE0\x80\x80z"), "\"" + bad + bad + bad + "z\"");
}

TEST(Escape, KeepsTheFirstAndLastCharacterOfEachLength) {
  for (const std::string text : {"\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                                 "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(quoted_json(text), "\"" + text + "\"");
  }
}

TEST(Escape, AppendsNumbers) {
  std::string out = "n=";
  append_number(out, std::numeric_limits<std::int64_t>::min());
  append_number(out, 0);
  EXPECT_EQ(out, "n=-92233720368547758080");
}

}  // namespace
}  // namespace tessera::json
