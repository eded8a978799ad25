// Draining a Server, and responses in pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "server_fixture.h"

namespace tessera::http {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr std::string_view kPlainGet = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";

TEST_F(ServerTest, DrainFinishesOpenRequestsAndClosesIdleConnections) {
  std::promise<Reply> pending;
  serve({}, [&](Request& request, Reply reply) {
    if (request.target() == "/slow") {
      pending.set_value(std::move(reply));
    } else {
      reply.send({});
    }
  });
  RawConnection idle = connect();
  idle.send(kPlainGet);
  read_response(idle);
  RawConnection busy = connect();
  busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
  Reply reply = pending.get_future().get();
  std::promise<void> done;
  server_->drain(10s, [&] { done.set_value(); });
  EXPECT_TRUE(idle.closed_by_peer());
  reply.send({.body = "finished"});
  const std::string response = busy.read_all();
  EXPECT_THAT(response, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(response, EndsWith("finished"));
  busy.close();
  EXPECT_EQ(done.get_future().wait_for(5s), std::future_status::ready);
}

// The response has a keep-alive head, and the peer reads its body only after the drain has started.
TEST_F(ServerTest, DrainClosesAConnectionAfterAResponseInFlight) {
  std::promise<void> responded;
  serve({}, [&](Request&, Reply reply) {
    reply.send({.body = std::string(64U << 20U, 'x')});
    responded.set_value();
  });
  RawConnection peer = connect();
  peer.send(kPlainGet);
  EXPECT_THAT(peer.read_until("\r\n\r\n"), ::testing::Not(HasSubstr("Connection: close")));
  responded.get_future().get();
  std::promise<void> done;
  server_->drain(60s, [&] { done.set_value(); });
  EXPECT_THAT(peer.read_all(), EndsWith("xxx"));
  peer.close();
  EXPECT_EQ(done.get_future().wait_for(10s), std::future_status::ready);
}

TEST_F(ServerTest, DrainClosesTheRemainingConnectionsAtTheDeadline) {
  std::promise<Reply> pending;
  serve({}, [&](Request&, Reply reply) { pending.set_value(std::move(reply)); });
  RawConnection peer = connect();
  peer.send(kPlainGet);
  const Reply reply = pending.get_future().get();
  std::promise<void> done;
  server_->drain(20ms, [&] { done.set_value(); });
  EXPECT_EQ(done.get_future().wait_for(5s), std::future_status::ready);
  EXPECT_TRUE(peer.closed_by_peer());
}

TEST_F(ServerTest, StreamsAResponseInPieces) {
  std::promise<ReplyStream> started;
  serve({}, [&](Request&, Reply reply) { started.set_value(reply.stream({.body = "first"})); });
  RawConnection peer = connect();
  peer.send(kPlainGet);
  ReplyStream stream = started.get_future().get();
  EXPECT_THAT(peer.read_until("first\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_TRUE(stream.write("second"));
  EXPECT_EQ(peer.read_until("second\r\n"), "6\r\nsecond\r\n");
  stream.end();
  EXPECT_EQ(peer.read_all(), "0\r\n\r\n");
}

TEST_F(ServerTest, AnIncompleteStreamEndsWithoutTheLastChunk) {
  std::promise<ReplyStream> started;
  serve({}, [&](Request&, Reply reply) { started.set_value(reply.stream({.body = "half"})); });
  RawConnection peer = connect();
  peer.send(kPlainGet);
  {
    const ReplyStream stream = started.get_future().get();
    peer.read_until("half\r\n");
  }
  EXPECT_EQ(peer.read_all(), "");
}

TEST_F(ServerTest, WriteReturnsFalseAfterThePeerClosedTheStream) {
  std::promise<ReplyStream> started;
  serve({}, [&](Request&, Reply reply) { started.set_value(reply.stream({.body = "x"})); });
  RawConnection peer = connect();
  peer.send(kPlainGet);
  ReplyStream stream = started.get_future().get();
  peer.read_until("x\r\n");
  peer.close();
  EXPECT_TRUE(eventually([&] { return !stream.open(); }));
  EXPECT_FALSE(stream.write("more"));
}

TEST_F(ServerTest, DisconnectsAStreamReaderThatIsTooSlow) {
  std::promise<ReplyStream> started;
  serve({.max_stream_backlog = 1U << 20U},
        [&](Request&, Reply reply) { started.set_value(reply.stream({.body = "x"})); });
  RawConnection peer = connect();
  peer.send(kPlainGet);
  ReplyStream stream = started.get_future().get();
  const std::string piece(256U << 10U, 'y');
  EXPECT_TRUE(eventually([&] { return !stream.write(piece); }));
}

}  // namespace
}  // namespace tessera::http
