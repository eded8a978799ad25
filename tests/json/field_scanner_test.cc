#include "json/field_scanner.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::json {
namespace {

constexpr std::string_view kText =
    R"({"type":"MODIFIED","name":"not this","object":{"metadata":{"name":"a","uid":"u","labels":{"name":"x"},)"
    R"("annotations.x":"","uid.x":"y",)"
    R"("annotations":{"k":"\"},\"uid\":\"forged\\"},"finalizers":["f","metadata"]},"spec":{"containers":[)"
    R"({"name":"c","env":[{"name":"nodeName","value":"{[\u003c"}]}],"nodeName":"gpu-a","n":[[[[[[[["deep"]]]]]]]]}}})";

FieldScanner scanned(std::string_view text, std::size_t step) {
  FieldScanner scanner({"type", "object.metadata.name", "object.metadata.uid", "object.spec.nodeName",
                        "object.spec.containers.name", "object.metadata.annotations.k", "object.spec.n"});
  for (std::size_t at = 0; at < text.size(); at += step) {
    scanner.feed(text.substr(at, step));
  }
  return scanner;
}

TEST(FieldScanner, FindsFieldsByPathHoweverTheTextIsCut) {
  for (std::size_t step = 1; step <= kText.size(); ++step) {
    const FieldScanner scanner = scanned(kText, step);
    ASSERT_TRUE(scanner.complete()) << step;
    EXPECT_EQ(scanner.text("type"), "MODIFIED");
    EXPECT_EQ(scanner.text("object.metadata.name"), "a");
    EXPECT_EQ(scanner.text("object.metadata.uid"), "u");
    EXPECT_EQ(scanner.count("object.metadata.uid"), 1U);
    EXPECT_EQ(scanner.text("object.spec.nodeName"), "gpu-a");
    EXPECT_EQ(scanner.text("object.spec.containers.name"), "c");
    EXPECT_EQ(scanner.text("object.metadata.annotations.k"), "") << "it has escapes";
    EXPECT_EQ(scanner.count("object.metadata.annotations.k"), 1U);
    EXPECT_EQ(scanner.count("object.spec.n"), 0U) << "too deep";
  }
}

TEST(FieldScanner, CountsTheElementsOfAnArray) {
  FieldScanner scanner({"items.uid"});
  scanner.feed(R"({"items":[{"uid":"1"},{"uid":"2"}]})");
  EXPECT_EQ(scanner.text("items.uid"), "1");
  EXPECT_EQ(scanner.count("items.uid"), 2U);
}

TEST(FieldScanner, IsCompleteOnlyAfterExactlyOneObject) {
  for (const std::string_view text :
       {"", "{", R"({"a":"b)", R"({"a":"b\"})", "{}{}", "{}}", "\"x\"", "{\"a\":[}"}) {
    EXPECT_FALSE(scanned(text, 1).complete()) << text;
  }
  EXPECT_TRUE(scanned(" {} \r\n", 1).complete());
}

TEST(FieldScanner, SkipsLongStringsAndDeepNesting) {
  FieldScanner scanner({"a", "b"});
  scanner.feed(R"({"a":")" + std::string(1U << 20U, 'x') + R"(","c":)" + std::string(100'000, '['));
  scanner.feed(std::string(100'000, ']') + R"(,"b":"found"})");
  EXPECT_TRUE(scanner.complete());
  EXPECT_EQ(scanner.text("a"), "");
  EXPECT_EQ(scanner.text("b"), "found");
}

}  // namespace
}  // namespace tessera::json
