#include "json/padded_buffer.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace tessera::json {
namespace {

TEST(PaddedBuffer, GrowsAndKeepsItsText) {
  PaddedBuffer buffer;
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    const std::string piece = std::to_string(i) + ";";
    buffer.append(piece);
    expected += piece;
  }
  EXPECT_EQ(buffer.text(), expected);
}

TEST(PaddedBuffer, PadsEveryView) {
  PaddedBuffer buffer("{}");
  const PaddedView view = buffer.view();
  // AddressSanitizer reports this read if the padding is missing.
  EXPECT_EQ(std::accumulate(view.data() + view.size(), view.data() + view.size() + kPadding, 0), 0);
  const PaddedView nothing;
  EXPECT_EQ(std::accumulate(nothing.data(), nothing.data() + kPadding, 0), 0);
  PaddedBuffer empty;
  EXPECT_EQ(empty.view().size(), 0U);
  EXPECT_EQ(std::accumulate(empty.view().data(), empty.view().data() + kPadding, 0), 0);
}

TEST(PaddedBuffer, ReusesItsMemory) {
  PaddedBuffer buffer;
  const char* memory = buffer.prepare(10'000).data();
  buffer.commit(10'000);
  buffer.clear();
  EXPECT_EQ(buffer.prepare(10'000).data(), memory);
}

TEST(PaddedBuffer, FreesTheMemoryOfAHugeText) {
  PaddedBuffer buffer;
  buffer.commit(buffer.prepare(1U << 20U).size());
  buffer.clear_and_trim(1U << 20U);
  EXPECT_EQ(buffer.capacity(), 1U << 20U);
  buffer.clear_and_trim(1000);
  EXPECT_EQ(buffer.capacity(), 0U);
}

TEST(PaddedBuffer, ConsumeRemovesBytesFromTheFront) {
  PaddedBuffer buffer("abcdef");
  buffer.consume(2);
  EXPECT_EQ(buffer.text(), "cdef");
  buffer.consume(0);
  EXPECT_EQ(buffer.text(), "cdef");
  buffer.consume(100);
  EXPECT_TRUE(buffer.empty());
}

TEST(PaddedBuffer, DoesNotCommitMoreThanItHasRoomFor) {
  PaddedBuffer buffer;
  const std::size_t room = buffer.prepare(100).size();
  buffer.commit(room + 1);
  EXPECT_EQ(buffer.size(), room);
}

TEST(PaddedBuffer, IsEmptyAndUsableAfterBeingMovedFrom) {
  PaddedBuffer from("text");
  const PaddedBuffer to(std::move(from));
  EXPECT_EQ(to.text(), "text");
  EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move): the test is about this
  from.append("again");
  EXPECT_EQ(from.text(), "again");
}

}  // namespace
}  // namespace tessera::json
