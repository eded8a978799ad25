#include "http/message_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tessera::http {
namespace {

class Collected final : public BodySink {
 public:
  bool on_body(std::string_view piece) override {
    text.append(piece);
    return !pause;
  }
  std::string text;
  bool pause = false;
};

// Feeds `bytes` in steps of `step` bytes. Bytes that were not consumed are fed again.
tl::expected<std::string, MessageFault> read(MessageReader& reader, std::string_view bytes,
                                             std::size_t step) {
  Collected body;
  std::string pending;
  for (std::size_t at = 0; at < bytes.size() && !reader.done(); at += step) {
    pending += bytes.substr(at, step);
    while (!pending.empty() && !reader.done()) {
      const bool had_head = reader.head_done();
      const auto used = reader.feed(pending, body);
      if (!used) {
        return tl::unexpected(used.error());
      }
      pending.erase(0, *used);
      if (*used == 0 && had_head == reader.head_done()) {
        break;
      }
    }
  }
  return body.text;
}

TEST(MessageReader, ReadsARequestSplitAtAnyByte) {
  const std::string bytes =
      "POST /filter?a=b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nX-Long:  spaced \r\n\r\n"
      "5;ext=\"1\"\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: t\r\n\r\n";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    MessageReader reader(MessageKind::kRequest, {});
    const auto body = read(reader, bytes, step);
    ASSERT_TRUE(body) << step << " " << body.error().text;
    EXPECT_TRUE(reader.done());
    EXPECT_EQ(*body, "hello world");
    EXPECT_EQ(reader.head().method, "POST");
    EXPECT_EQ(reader.head().target, "/filter?a=b");
    EXPECT_EQ(reader.head().headers.find("x-long"), "spaced");
    EXPECT_TRUE(reader.head().keep_alive);
  }
}

TEST(MessageReader, CanBeReusedForTheNextMessage) {
  MessageReader reader(MessageKind::kRequest, {});
  ASSERT_TRUE(read(reader, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab", 1000));
  reader.start();
  EXPECT_FALSE(reader.started());
  ASSERT_TRUE(read(reader, "GET /2 HTTP/1.0\r\n\r\n", 1000));
  EXPECT_EQ(reader.head().target, "/2");
  EXPECT_EQ(reader.head().version, 10);
  EXPECT_EQ(reader.head().headers.size(), 0U);
  EXPECT_FALSE(reader.head().content_length);
  EXPECT_FALSE(reader.head().keep_alive);
}

TEST(MessageReader, ReturnsTheNumberOfMissingBodyBytes) {
  MessageReader reader(MessageKind::kResponse, {});
  Collected body;
  const std::string_view head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
  EXPECT_EQ(reader.feed(head, body).value(), head.size());
  EXPECT_EQ(reader.remaining(), 10U);
  EXPECT_EQ(reader.feed("1234", body).value(), 4U);
  EXPECT_EQ(reader.remaining(), 6U);
  EXPECT_FALSE(reader.end());
}

TEST(MessageReader, StopsWhenTheSinkPauses) {
  MessageReader reader(MessageKind::kResponse, {});
  Collected body;
  body.pause = true;
  const std::string_view head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string_view chunks = "1\r\na\r\n1\r\nb\r\n0\r\n\r\n";
  EXPECT_EQ(reader.feed(head, body).value(), head.size());
  std::size_t used = reader.feed(chunks, body).value();
  EXPECT_EQ(body.text, "a");
  used += reader.feed(chunks.substr(used), body).value();
  EXPECT_EQ(body.text, "ab");
  used += reader.feed(chunks.substr(used), body).value();
  EXPECT_EQ(used, chunks.size());
  EXPECT_TRUE(reader.done());
}

TEST(MessageReader, ABodyMayEndWithTheConnectionOnlyIfItHasNoLength) {
  MessageReader open_ended(MessageKind::kResponse, {});
  EXPECT_EQ(read(open_ended, "HTTP/1.1 200 OK\r\n\r\nabc", 1000).value(), "abc");
  EXPECT_FALSE(open_ended.done());
  EXPECT_TRUE(open_ended.end());
  EXPECT_TRUE(open_ended.done());

  MessageReader nothing(MessageKind::kResponse, {});
  EXPECT_FALSE(nothing.end());
}

TEST(MessageReader, LimitsABodyWithoutALength) {
  MessageReader reader(MessageKind::kResponse, {.body_bytes = 5});
  const auto body = read(reader, "HTTP/1.1 200 OK\r\n\r\nabcdef", 1);
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().status, 413);
}

TEST(MessageReader, LimitsTrailers) {
  MessageReader reader(MessageKind::kRequest, {.head_bytes = 500});
  const std::string bytes =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + std::string(10'000, 'y');
  const auto body = read(reader, bytes, 100);
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().status, 431);
}

TEST(MessageReader, JoinsFoldedHeaderLines) {
  MessageReader reader(MessageKind::kRequest, {});
  ASSERT_TRUE(read(reader, "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 1));
  EXPECT_EQ(reader.head().headers.find("A"), "b c");
}

}  // namespace
}  // namespace tessera::http
