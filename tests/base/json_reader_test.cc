#include "base/json_reader.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

std::string error_of(std::string_view text) {
  const auto parsed = parse_json(text);
  return parsed ? "none" : parsed.error().text();
}

TEST(ParseJson, ReportsWhereTheTextIsMalformed) {
  EXPECT_EQ(error_of("{\"a\":1}"), "none");
  EXPECT_EQ(error_of("{\"a\":1} \n"), "none");
  EXPECT_EQ(error_of(""), "not JSON: the text is empty");
  EXPECT_EQ(error_of("{\"a\":"), "not JSON: the text is cut off");
  EXPECT_NE(error_of("{} x").find("not JSON:"), std::string::npos);
  EXPECT_NE(error_of("{\"a\":nope}").find("at byte"), std::string::npos);
}

TEST(ParseJson, EnforcesItsLimits) {
  EXPECT_FALSE(parse_json("[1,2,3]", 3));
  EXPECT_FALSE(parse_json(std::string(40, '[') + std::string(40, ']')));
  EXPECT_TRUE(parse_json(std::string(30, '[') + std::string(30, ']')));
}

TEST(JsonReader, ReadsFieldsOfTheRightType) {
  const auto document = parse_json(R"({"v":1,"name":"a","ok":true,"list":[{"n":2}],"o":{"x":-3}})").value();
  const JsonReader root(document, "doc");
  EXPECT_EQ(root.integer("v", 1, 1).value(), 1);
  EXPECT_EQ(root.text("name").value(), "a");
  EXPECT_TRUE(root.boolean("ok").value());
  EXPECT_EQ(root.array("list", 4).value().at(0).integer("n", 0, 9).value(), 2);
  EXPECT_EQ(root.object("o").value().integer("x", -9, 9).value(), -3);
  EXPECT_EQ(root.text_or("missing", "else").value(), "else");
  EXPECT_EQ(root.integer_or("v", 0, 9, 7).value(), 1);
  EXPECT_EQ(root.as_object(10).value().size(), 5U);
}

TEST(JsonReader, NamesTheFieldThatIsWrong) {
  const auto document =
      parse_json(R"({"v":2,"name":3,"ok":0,"big":18446744073709551615,"list":[{"n":1.5}],"null":null})")
          .value();
  const JsonReader root(document, "doc");
  EXPECT_EQ(root.integer("v", 1, 1).error().text(), "doc.v is 2, not in 1..1");
  EXPECT_EQ(root.text("name").error().text(), "doc.name is not a string");
  EXPECT_EQ(root.boolean("ok").error().text(), "doc.ok is neither true nor false");
  EXPECT_EQ(root.integer("big", 0, 9).error().text(), "doc.big is too large");
  EXPECT_EQ(root.integer("gone", 0, 9).error().text(), "doc.gone is missing");
  EXPECT_EQ(root.text("null").error().text(), "doc.null is missing");
  EXPECT_EQ(root.object("v").error().text(), "doc.v is not an object");
  EXPECT_EQ(root.array("v", 3).error().text(), "doc.v is not a list");
  EXPECT_EQ(root.array("list", 0).error().text(), "doc.list has 1 entries, more than the limit of 0");
  EXPECT_EQ(root.array("list", 4).value().at(0).integer("n", 0, 9).error().text(),
            "doc.list[0].n is not a whole number");
  EXPECT_EQ(root.text_or("name", "x").error().text(), "doc.name is not a string");
}

TEST(JsonReader, RejectsFieldAccessOnAnArray) {
  const auto document = parse_json("[1]").value();
  EXPECT_EQ(JsonReader(document, "doc").text("a").error().text(), "doc is not an object");
}

}  // namespace
}  // namespace tessera
