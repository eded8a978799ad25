// Server: requests, responses, limits, and peers that misbehave.
#include "http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>

#include "base/file.h"
#include "base/strings.h"
#include "server_fixture.h"

namespace tessera::http {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kGet = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";

std::string post(std::string_view body) {
  return "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         std::string(body);
}

TEST_F(ServerTest, RespondsAndKeepsTheConnection) {
  serve();
  RawConnection peer = connect();
  for (int i = 0; i < 3; ++i) {
    peer.send(post("hello"));
    const std::string response = read_response(peer);
    EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\nDate: "));
    EXPECT_THAT(response, HasSubstr("Content-Type: text/plain\r\n"));
    EXPECT_THAT(response, Not(HasSubstr("Connection:")));
    EXPECT_THAT(response, EndsWith("\r\n\r\nPOST /p hello"));
  }
  EXPECT_EQ(server_->stats().accepted, 1U);
}

TEST_F(ServerTest, ClosesTheConnectionIfCloseAfterResponseReturnsTrue) {
  std::atomic<bool> close = false;
  serve({.close_after_response = [&] { return close.load(); }});
  RawConnection peer = connect();
  peer.send(post("one"));
  EXPECT_THAT(read_response(peer), Not(HasSubstr("Connection:")));
  close = true;
  peer.send(post("two"));
  const std::string response = read_response(peer);
  EXPECT_THAT(response, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(response, EndsWith("POST /p two"));
}

TEST_F(ServerTest, ReadsALargeBodyWholeAndInOrder) {
  std::string sent;
  for (int i = 0; sent.size() < 3'000'000; ++i) {
    sent += std::to_string(i) + ",";
  }
  bool equal = false;
  serve({}, [&](Request& request, Reply reply) {
    equal = request.body().text() == sent;
    reply.send({});
  });
  RawConnection peer = connect();
  peer.send(post(sent));
  EXPECT_THAT(read_response(peer), HasSubstr(" 200 OK"));
  EXPECT_TRUE(equal);
}

TEST_F(ServerTest, ReadsAChunkedBody) {
  serve();
  RawConnection peer = connect();
  peer.send("POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  peer.send("4;x=y\r\ndefg\r\n0\r\nTrailer: z\r\n\r\n");
  EXPECT_THAT(read_response(peer), EndsWith("POST /p abcdefg"));
}

TEST_F(ServerTest, AcceptsARequestSentByteByByte) {
  serve();
  RawConnection peer = connect();
  for (const char c : post("abc")) {
    peer.send({&c, 1});
  }
  EXPECT_THAT(read_response(peer), EndsWith("POST /p abc"));
}

TEST_F(ServerTest, Sends100ContinueIfTheClientExpectsIt) {
  serve();
  RawConnection peer = connect();
  peer.send("POST /p HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(peer.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  peer.send("ok");
  EXPECT_THAT(read_response(peer), EndsWith("POST /p ok"));
}

TEST_F(ServerTest, SendsNoBodyInAResponseToHead) {
  serve();
  RawConnection peer = connect();
  peer.send("HEAD /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string response = peer.read_all();
  EXPECT_THAT(response, HasSubstr("Content-Length: 8\r\n"));
  EXPECT_THAT(response, EndsWith("\r\n\r\n"));
}

TEST_F(ServerTest, ClosesAfterAnHttp10Request) {
  serve();
  RawConnection peer = connect();
  peer.send("GET /x HTTP/1.0\r\n\r\n");
  EXPECT_THAT(peer.read_all(), EndsWith("GET /x "));
}

TEST_F(ServerTest, AcceptsCapturedRequestsOfKubeScheduler) {
  const std::filesystem::path captures = TESSERA_SHARED_DATA "/captures";
  if (!std::filesystem::exists(captures)) {
    GTEST_SKIP() << "no captured requests in " << captures;
  }
  std::string seen;
  serve({}, [&](Request& request, Reply reply) {
    seen = request.body().text();
    reply.send({.body = std::string(request.path())});
  });
  int sent = 0;
  RawConnection peer = connect();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(captures)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".request.head")) {
      continue;
    }
    std::string head;  // the captures have LF line ends
    const std::string captured = read_file(path).value();
    for (const std::string_view line : split(captured, '\n')) {
      if (!trim(line).empty()) {
        head += std::string(trim(line)) + "\r\n";
      }
    }
    const std::string body = read_file(path.substr(0, path.size() - 4) + "json").value();
    ASSERT_THAT(head, HasSubstr("Content-Length: " + std::to_string(body.size()))) << path;
    peer.send(head + "\r\n" + body);
    EXPECT_THAT(read_response(peer), HasSubstr("/ext/")) << path;
    EXPECT_EQ(seen, body) << path;
    ++sent;
  }
  EXPECT_GT(sent, 20);
  EXPECT_EQ(server_->stats().accepted, 1U);
}

// An invalid request and the expected status.
struct WrongRequest {
  const char* name;
  std::string bytes;
  const char* status;
};

class WrongRequestTest : public ServerTest, public ::testing::WithParamInterface<WrongRequest> {};

TEST_P(WrongRequestTest, IsRejectedAndTheConnectionIsClosed) {
  serve({.max_head_bytes = 2000, .max_body_bytes = 1000},
        [](Request&, Reply reply) { reply.send({.body = "must not get here"}); });
  RawConnection peer = connect();
  peer.send(GetParam().bytes);
  const std::string response = peer.read_all();
  EXPECT_THAT(response, StartsWith(std::string("HTTP/1.1 ") + GetParam().status));
  EXPECT_THAT(response, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(response, HasSubstr("{\"error\":\""));
  EXPECT_EQ(server_->stats().bad_requests, 1U);
}

INSTANTIATE_TEST_SUITE_P(
    ServerTest, WrongRequestTest,
    ::testing::Values(
        WrongRequest{"Garbage", "\x16\x03\x01\x02garbage\r\n\r\n", "400"},
        WrongRequest{"NoHost", "GET / HTTP/1.1\r\n\r\n", "400"},
        WrongRequest{"Version", "GET / HTTP/3.0\r\nHost: a\r\n\r\n", "505"},
        WrongRequest{"BadLength", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", "400"},
        WrongRequest{"TwoLengths",
                     "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400"},
        WrongRequest{
            "LengthAndChunked",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "501"},
        WrongRequest{"UnknownCoding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "501"},
        WrongRequest{"BodyTooLarge", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", "413"},
        WrongRequest{"ChunkTooLarge",
                     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n", "413"},
        WrongRequest{"BadChunk", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
                     "400"},
        WrongRequest{"HeadTooLarge", "GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(3000, 'x') + "\r\n\r\n",
                     "431"},
        WrongRequest{"TargetTooLarge", "GET /" + std::string(3000, 'x'), "431"},
        WrongRequest{
            "EndlessExtension",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(9000, 'x'),
            "431"}),
    [](const auto& tested) { return tested.param.name; });

TEST_F(ServerTest, RejectsAPipelinedRequestByClosingAfterTheFirstResponse) {
  int calls = 0;
  serve({}, [&](Request& request, Reply reply) {
    ++calls;
    reply.send({.body = std::string(request.target())});
  });
  RawConnection peer = connect();
  peer.send(std::string(kGet) + "GET /second HTTP/1.1\r\nHost: a\r\n\r\n");
  const std::string response = peer.read_all();
  EXPECT_THAT(response, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(response, EndsWith("\r\n\r\n/x"));
  EXPECT_EQ(calls, 1);
}

TEST_F(ServerTest, RejectsAPipelinedRequestThatArrivesWhileTheHandlerWorks) {
  std::promise<Reply> pending;
  serve({}, [&](Request&, Reply reply) { pending.set_value(std::move(reply)); });
  RawConnection peer = connect();
  peer.send(kGet);
  Reply reply = pending.get_future().get();
  peer.send(kGet);  // on loopback the bytes have arrived when send() returns
  reply.send({.body = "one"});
  EXPECT_THAT(peer.read_all(), EndsWith("Connection: close\r\n\r\none"));
}

TEST_F(ServerTest, RespondsWith408ToASlowHead) {
  serve({.head_timeout = 30ms});
  RawConnection peer = connect();
  peer.send("GET / HTTP/1.1\r\nHo");
  EXPECT_THAT(peer.read_all(), StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(server_->stats().timeouts, 1U);
}

TEST_F(ServerTest, TheHeadTimeoutIsNotExtendedByEachByte) {
  serve({.max_head_bytes = 256U << 20U, .head_timeout = 60ms});
  RawConnection peer = connect();
  std::string response;
  std::jthread drip([&](const std::stop_token& stop) {
    peer.send("GET / HTTP/1.1\r\n");
    while (!stop.stop_requested() && peer.send("A: b\r\n")) {
      std::this_thread::yield();
    }
  });
  response = peer.read_until("\r\n\r\n");
  EXPECT_THAT(response, StartsWith("HTTP/1.1 408 "));
}

TEST_F(ServerTest, LimitsTheMemoryOfAllBodiesTogether) {
  serve({.max_body_bytes = 4U << 20U, .max_bodies_bytes = 6U << 20U});
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n";
  const std::string body(4U << 20U, 'x');
  RawConnection first = connect();
  first.send(head + body.substr(1));  // all except one byte, so that it keeps its memory
  RawConnection second = connect();
  second.send(head);
  while (second.send(body.substr(0, 64U << 10U))) {
  }
  EXPECT_THAT(second.read_all(),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("out of memory for request bodies")));
  first.send("x");
  EXPECT_THAT(read_response(first), HasSubstr("200"));
  RawConnection third = connect();
  third.send(head + body);
  EXPECT_THAT(read_response(third), HasSubstr("200")) << "the memory of the others was not released";
}

TEST_F(ServerTest, RespondsWith408ToASlowBody) {
  serve({.body_timeout = 30ms});
  RawConnection peer = connect();
  peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc");
  EXPECT_THAT(peer.read_all(), StartsWith("HTTP/1.1 408 "));
}

TEST_F(ServerTest, ClosesAnIdleConnectionWithoutAResponse) {
  serve({.idle_timeout = 500ms});
  RawConnection peer = connect();
  peer.send(kGet);
  read_response(peer);
  EXPECT_EQ(peer.read_all(), "");
  EXPECT_EQ(server_->stats().timeouts, 0U);
}

TEST_F(ServerTest, DisconnectsAPeerThatDoesNotReadItsResponse) {
  serve({.write_timeout = 50ms},
        [](Request&, Reply reply) { reply.send({.body = std::string(64U << 20U, 'x')}); });
  RawConnection peer = connect();
  peer.send(kGet);
  EXPECT_TRUE(
      eventually([&] { return server_->stats().timeouts == 1 && server_->stats().connections == 0; }));
}

TEST_F(ServerTest, IgnoresAPeerThatDisconnectsInTheMiddle) {
  serve();
  RawConnection peer = connect();
  peer.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  peer.close();
  RawConnection other = connect();
  other.send(kGet);
  EXPECT_THAT(read_response(other), EndsWith("GET /x "));
  EXPECT_TRUE(eventually([&] { return server_->stats().connections == 1; }));
}

TEST_F(ServerTest, SurvivesAResetBeforeTheResponse) {
  std::promise<Reply> pending;
  serve({}, [&](Request&, Reply reply) { pending.set_value(std::move(reply)); });
  RawConnection peer = connect();
  peer.send(kGet);
  Reply reply = pending.get_future().get();
  peer.close(/*abruptly=*/true);
  reply.send({.body = std::string(1U << 20U, 'x')});
  EXPECT_TRUE(eventually([&] { return server_->stats().connections == 0; }));
  EXPECT_EQ(server_->stats().in_flight, 0U);
}

TEST_F(ServerTest, RespondsLaterFromAnotherThread) {
  std::promise<Reply> pending;
  std::string_view body;
  serve({}, [&](Request& request, Reply reply) {
    body = request.body().text();
    pending.set_value(std::move(reply));
  });
  RawConnection peer = connect();
  peer.send(post("still there"));
  Reply reply = pending.get_future().get();
  EXPECT_EQ(server_->stats().in_flight, 1U);
  EXPECT_EQ(body, "still there");
  reply.send({.status = 409, .body = "late"});
  EXPECT_THAT(read_response(peer), StartsWith("HTTP/1.1 409 Conflict"));
  EXPECT_EQ(server_->stats().in_flight, 0U);
}

TEST_F(ServerTest, TheRequestStaysValidAfterTheConnectionWasClosed) {
  std::promise<Reply> pending;
  std::string_view body;
  serve({}, [&](Request& request, Reply reply) {
    body = request.body().text();
    pending.set_value(std::move(reply));
  });
  RawConnection peer = connect();
  peer.send(post("hello"));
  Reply reply = pending.get_future().get();
  server_.reset();
  EXPECT_TRUE(peer.closed_by_peer());
  EXPECT_EQ(body, "hello");
}

TEST_F(ServerTest, RespondsWith500IfTheHandlerSendsNoReply) {
  serve({}, [](Request&, Reply) {});
  RawConnection peer = connect();
  peer.send(kGet);
  EXPECT_THAT(read_response(peer), StartsWith("HTTP/1.1 500 "));
}

TEST_F(ServerTest, OmitsHeadersThatWouldBreakTheHead) {
  serve({}, [](Request&, Reply reply) {
    reply.send({.headers = {{"X-Bad", "a\r\nX-Evil: b"}, {"X-Good", "c"}}});
  });
  RawConnection peer = connect();
  peer.send(kGet);
  const std::string response = read_response(peer);
  EXPECT_THAT(response, Not(HasSubstr("X-Evil")));
  EXPECT_THAT(response, HasSubstr("X-Good: c\r\n"));
}

TEST_F(ServerTest, ClosesTheLongestIdleConnectionToMakeRoom) {
  serve({.max_connections = 2});
  RawConnection first = connect();
  first.send(kGet);
  read_response(first);
  RawConnection second = connect();
  second.send(kGet);
  read_response(second);
  RawConnection third = connect();
  third.send(kGet);
  EXPECT_THAT(read_response(third), HasSubstr(" 200 OK"));
  EXPECT_TRUE(first.closed_by_peer());
  EXPECT_EQ(server_->stats().connections, 2U);
}

TEST_F(ServerTest, RefusesAConnectionWhenAllAreBusy) {
  std::promise<Reply> pending;
  serve({.max_connections = 1}, [&](Request&, Reply reply) { pending.set_value(std::move(reply)); });
  RawConnection busy = connect();
  busy.send(kGet);
  Reply reply = pending.get_future().get();
  RawConnection refused = connect();
  EXPECT_THAT(refused.read_all(), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(server_->stats().refused_full, 1U);
  reply.send({});
  EXPECT_THAT(read_response(busy), HasSubstr(" 200 OK"));
}

TEST_F(ServerTest, ReportsEachAccess) {
  std::promise<std::string> seen;
  serve({.on_access =
             [&](const Access& access) {
               seen.set_value(std::string(access.route) + " " + std::string(access.method) + " " +
                              std::to_string(access.status) + " " + std::to_string(access.bytes_in) +
                              (access.bytes_out > 100 && access.took > 0ns ? " ok" : " not ok"));
             }},
        [](Request& request, Reply reply) {
          request.set_route("filter");
          reply.send({.status = 202, .body = "abc"});
        });
  RawConnection peer = connect();
  peer.send(post("12345"));
  read_response(peer);
  EXPECT_EQ(seen.get_future().get(), "filter POST 202 5 ok");
}

TEST_F(ServerTest, ErrorNamesThePortThatIsTaken) {
  const std::uint16_t port = serve().port();
  const Result<Server> second = Server::create(loop_, {.port = port}, [](Request&, Reply) {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(second.error().text(), HasSubstr(std::to_string(port)));
}

TEST_F(ServerTest, RejectsAnInvalidAddress) {
  const Result<Server> server = Server::create(loop_, {.address = "localhost"}, [](Request&, Reply) {});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code(), ErrorCode::kInvalid);
}

}  // namespace
}  // namespace tessera::http
