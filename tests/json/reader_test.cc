#include "json/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/file.h"

namespace tessera::json {
namespace {

using ::testing::HasSubstr;

TEST(CheckedReader, ReadsADocument) {
  CheckedReader reader;
  PaddedBuffer text(R"({"a":[1,2,{"b":"c"}]})");
  const auto document = reader.read(text.view(), "the body");
  ASSERT_TRUE(document);
  std::string_view value;
  ASSERT_EQ(document->at_pointer("/a/2/b").get(value), simdjson::SUCCESS);
  EXPECT_EQ(value, "c");
}

TEST(CheckedReader, RefusesEveryTruncation) {
  CheckedReader reader;
  const std::string whole = R"({"a":[1,-2.5e3,true,null,{"b":"\u00e4\n"}],"c":{}})";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    PaddedBuffer text(std::string_view(whole).substr(0, size));
    EXPECT_FALSE(reader.read(text.view(), "the body")) << size;
  }
  PaddedBuffer text(whole);
  EXPECT_TRUE(reader.read(text.view(), "the body"));
}

TEST(CheckedReader, NamesTheTextAndTheFault) {
  CheckedReader reader;
  for (const char* bad : {"", "{", "[1,]", "{\"a\" 1}", "\"\x01\"", "\"\xFF\"", "01", "{} {}", "nul"}) {
    PaddedBuffer text(bad);
    const auto document = reader.read(text.view(), "the body");
    ASSERT_FALSE(document) << bad;
    EXPECT_EQ(document.error().code(), ErrorCode::kInvalid) << bad;
    EXPECT_THAT(document.error().text(), HasSubstr("the body: ")) << bad;
  }
}

TEST(CheckedReader, RefusesADeepNest) {
  CheckedReader reader(10);
  const auto nest = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  PaddedBuffer shallow(nest(9));
  PaddedBuffer deep(nest(11));
  PaddedBuffer abyss(nest(100'000));
  EXPECT_TRUE(reader.read(shallow.view(), "x"));
  EXPECT_FALSE(reader.read(deep.view(), "x"));
  EXPECT_FALSE(reader.read(abyss.view(), "x"));
}

TEST(CheckedReader, ReadsALargerDocumentAfterASmallOne) {
  CheckedReader reader;
  PaddedBuffer small("[]");
  PaddedBuffer large("[" + std::string(100'000, ' ') + "7]");
  EXPECT_TRUE(reader.read(small.view(), "x"));
  const auto document = reader.read(large.view(), "x");
  ASSERT_TRUE(document);
  EXPECT_EQ(std::int64_t(document->at(0)), 7);
  EXPECT_TRUE(reader.read(small.view(), "x"));
}

TEST(OnDemandReader, ReadsCapturedExtenderBodies) {
  const std::filesystem::path file =
      TESSERA_SHARED_DATA "/captures/v1.36.4-nodeCacheCapable-true/extender/001-filter.request.json";
  if (!std::filesystem::exists(file)) {
    GTEST_SKIP() << "no captures at " << file << ": this test saw no real body";
  }
  OnDemandReader reader;
  PaddedBuffer text(read_file(file).value());
  for (int again = 0; again < 2; ++again) {
    auto document = reader.read(text.view(), "the body");
    ASSERT_TRUE(document);
    std::string_view name;
    ASSERT_EQ((*document)["Pod"]["metadata"]["name"].get(name), simdjson::SUCCESS);
    EXPECT_FALSE(name.empty());
  }
}

TEST(OnDemandReader, RefusesAnEmptyText) {
  OnDemandReader reader;
  const auto document = reader.read({}, "the body");
  ASSERT_FALSE(document);
  EXPECT_EQ(document.error().code(), ErrorCode::kInvalid);
}

}  // namespace
}  // namespace tessera::json
