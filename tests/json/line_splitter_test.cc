#include "json/line_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace tessera::json {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LineSplitterTest : public ::testing::Test {
 protected:
  Status feed(std::string_view piece) {
    PaddedBuffer buffer(piece);
    return splitter_.feed(
        buffer.view(),
        [this](PaddedView line) {
          lines_.emplace_back(line.text());
          return Status{};
        },
        [this](std::string_view part, bool last) {
          parts_ += part;
          parts_ += last ? "|" : "";
          return Status{};
        });
  }

  LineSplitter splitter_{100};
  std::vector<std::string> lines_;
  std::string parts_;  // of lines that are too long
};

TEST_F(LineSplitterTest, ReportsCompleteLines) {
  ASSERT_TRUE(feed("one\ntwo\r\n\n\r\nthree"));
  EXPECT_THAT(lines_, ElementsAre("one", "two"));
  EXPECT_TRUE(splitter_.pending());
}

TEST_F(LineSplitterTest, JoinsALineThatSpansPieces) {
  ASSERT_TRUE(feed("on"));
  ASSERT_TRUE(feed("e"));
  ASSERT_TRUE(feed(""));
  EXPECT_THAT(lines_, IsEmpty());
  ASSERT_TRUE(feed("\ntw"));
  ASSERT_TRUE(feed("o\r"));
  ASSERT_TRUE(feed("\n"));
  EXPECT_THAT(lines_, ElementsAre("one", "two"));
  EXPECT_FALSE(splitter_.pending());
}

TEST_F(LineSplitterTest, PassesOnALineThatIsTooLongInParts) {
  ASSERT_TRUE(feed(std::string(100, 'x') + "\n"));
  ASSERT_TRUE(feed(std::string(101, 'y') + "\nshort\n"));
  EXPECT_EQ(parts_, std::string(101, 'y') + "|");
  parts_.clear();
  ASSERT_TRUE(feed(std::string(60, 'z')));
  EXPECT_EQ(parts_, "");
  ASSERT_TRUE(feed(std::string(60, 'z')));
  EXPECT_EQ(parts_, std::string(120, 'z'));
  EXPECT_TRUE(splitter_.pending());
  ASSERT_TRUE(feed("end\nlast\n"));
  EXPECT_EQ(parts_, std::string(120, 'z') + "end|");
  EXPECT_FALSE(splitter_.pending());
  EXPECT_THAT(lines_, ElementsAre(std::string(100, 'x'), "short", "last"));
}

TEST_F(LineSplitterTest, ResetDiscardsALineThatIsTooLong) {
  ASSERT_TRUE(feed(std::string(101, 'x')));
  splitter_.reset();
  EXPECT_FALSE(splitter_.pending());
  ASSERT_TRUE(feed("fresh\n"));
  EXPECT_THAT(lines_, ElementsAre("fresh"));
}

TEST_F(LineSplitterTest, ResetDiscardsTheIncompleteLine) {
  ASSERT_TRUE(feed("cut off"));
  splitter_.reset();
  ASSERT_TRUE(feed("fresh\n"));
  EXPECT_THAT(lines_, ElementsAre("fresh"));
}

TEST_F(LineSplitterTest, StopsAtTheFirstErrorOfTheCallback) {
  int seen = 0;
  PaddedBuffer buffer("a\nb\nc\n");
  const Status status = splitter_.feed(
      buffer.view(),
      [&](PaddedView line) -> Status {
        ++seen;
        if (line.text() == "b") {
          return fail(ErrorCode::kInvalid, "b");
        }
        return {};
      },
      nullptr);
  EXPECT_EQ(status.error().message(), "b");
  EXPECT_EQ(seen, 2);
}

TEST_F(LineSplitterTest, ReportsTheSameLinesHoweverTheStreamIsCut) {
  std::mt19937 random(7);
  std::string stream;
  std::vector<std::string> expected;
  for (int i = 0; i < 500; ++i) {
    expected.push_back(std::string(1 + random() % 90, static_cast<char>('a' + i % 26)));
    stream += expected.back() + (i % 3 == 0 ? "\r\n" : "\n");
  }
  for (int round = 0; round < 50; ++round) {
    lines_.clear();
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t size = 1 + random() % 200;
      ASSERT_TRUE(feed(std::string_view(stream).substr(at, size)));
      at += size;
    }
    ASSERT_EQ(lines_, expected);
  }
}

}  // namespace
}  // namespace tessera::json
