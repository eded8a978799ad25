// What a Client says when servers answer wrongly, late, half or not at all, and what it tries once more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client_fixture.h"

namespace tessera::http {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// The answers that end a request badly, and what is known then.
struct BadAnswer {
  const char* name;
  const char* method;
  std::string bytes;
  ErrorCode code;
  const char* text;
};

class BadAnswerTest : public ClientTest, public ::testing::WithParamInterface<BadAnswer> {};

TEST_P(BadAnswerTest, IsToldApart) {
  client();
  auto answer = fetch_soon({.method = GetParam().method, .max_response_bytes = 1000});
  RawConnection server = listener_.accept();
  server.read_until("\r\n\r\n");
  server.send(GetParam().bytes);
  server.end_sending();
  const Result<ClientResponse> response = answer.get();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), GetParam().code) << response.error().text();
  EXPECT_THAT(response.error().text(), HasSubstr(GetParam().text));
  EXPECT_THAT(response.error().text(),
              HasSubstr(std::string(GetParam().method) + " " + listener_.url() + "/"));
}

INSTANTIATE_TEST_SUITE_P(
    ClientTest, BadAnswerTest,
    ::testing::Values(
        BadAnswer{"NothingToGet", "GET", "", ErrorCode::kUnavailable,
                  "closed the connection without an answer"},
        BadAnswer{"NothingToPost", "POST", "", ErrorCode::kTimeout,
                  "whether it was carried out is not known"},
        BadAnswer{"HalfAHead", "POST", "HTTP/1.1 200 O", ErrorCode::kTimeout, "in the middle of its answer"},
        BadAnswer{"HalfABody", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
                  ErrorCode::kUnavailable, "in the middle of its answer"},
        BadAnswer{"HalfAChunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
                  ErrorCode::kUnavailable, "in the middle of its answer"},
        BadAnswer{"NoLastChunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
                  ErrorCode::kUnavailable, "in the middle of its answer"},
        BadAnswer{"Garbage", "GET", "SSH-2.0-OpenSSH\r\n\r\n", ErrorCode::kInvalid,
                  "the answer cannot be read"},
        BadAnswer{"TooLong", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", ErrorCode::kExhausted,
                  "larger than 1000 bytes"},
        BadAnswer{"TooLongInChunks", "GET",
                  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'x') +
                      "\r\n0\r\n\r\n",
                  ErrorCode::kExhausted, "larger than 1000 bytes"},
        BadAnswer{"Redirect", "GET",
                  "HTTP/1.1 302 Found\r\nLocation: http://evil/\r\nContent-Length: 0\r\n\r\n",
                  ErrorCode::kUnsupported, "a redirect to \"http://evil/\", which is not followed"}),
    [](const auto& tested) { return tested.param.name; });

TEST_F(ClientTest, SaysThatTheRequestWasNotSentWhenNobodyListens) {
  listener_.close();
  client();
  const Result<ClientResponse> response = client_->fetch({.method = "POST"});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(response.error().text(), HasSubstr("cannot connect to 127.0.0.1:"));
}

TEST_F(ClientTest, SaysThatAHostNameIsUnknown) {
  client({.url = "http://no-such-host.invalid:1"});
  const Result<ClientResponse> response = client_->fetch({});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(response.error().text(), HasSubstr("cannot connect to no-such-host.invalid:1"));
}

TEST_F(ClientTest, GivesUpAServerThatDoesNotBeginToAnswer) {
  client({.timeouts = {.first_byte = 30ms}});
  auto answer = fetch_soon({});
  RawConnection server = listener_.accept();
  const Result<ClientResponse> response = answer.get();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kTimeout);
  EXPECT_THAT(response.error().text(), HasSubstr("waiting for the answer to begin took longer than 30 ms"));
  EXPECT_THAT(response.error().text(), HasSubstr("GET " + listener_.url() + "/: "));
  server.read_until("\r\n\r\n");
  EXPECT_TRUE(server.closed_by_peer());
}

TEST_F(ClientTest, GivesUpAServerThatStopsInTheMiddle) {
  client({.timeouts = {.idle = 30ms}});
  auto answer = fetch_soon({});
  RawConnection server = listener_.accept();
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab");
  const Result<ClientResponse> response = answer.get();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kTimeout);
  EXPECT_THAT(response.error().text(), HasSubstr("waiting for the rest of the answer"));
}

TEST_F(ClientTest, GivesUpAnAnswerThatDripsBeyondItsTime) {
  client();
  std::promise<Status> end;
  const Call call = client_->stream({.timeouts = ClientTimeouts{.whole = 50ms}},
                                    {.on_data = [](json::PaddedView) { return Flow::kContinue; }},
                                    [&](Status status) { end.set_value(std::move(status)); });
  RawConnection server = listener_.accept();
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
  while (server.send("x")) {
    std::this_thread::yield();
  }
  const Status status = end.get_future().get();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::kTimeout);
  EXPECT_THAT(status.error().text(),
              HasSubstr("not done within 50 ms; it was waiting for the rest of the answer"));
}

TEST_F(ClientTest, DoesNotSendIntoAConnectionThatTheServerHasClosed) {
  client();
  {
    auto first = fetch_soon({});
    RawConnection server = answer_one();
    ASSERT_TRUE(first.get());
  }
  auto second = fetch_soon({.method = "POST"});
  RawConnection server = answer_one();
  EXPECT_TRUE(second.get());
}

// A kept-alive connection that dies under a request: whether it is sent once more.
class StaleConnectionTest : public ClientTest, public ::testing::WithParamInterface<const char*> {
 protected:
  // Ends with a request that was sent on a kept-alive connection, which the server then resets.
  std::future<Result<ClientResponse>> request_on_dying_connection(const std::string& method) {
    client();
    auto first = fetch_soon({});
    RawConnection server = answer_one();
    EXPECT_TRUE(first.get());
    auto second = fetch_soon({.method = method});
    server.read_until("\r\n\r\n");
    server.close(/*abruptly=*/true);
    return second;
  }
};

TEST_P(StaleConnectionTest, SendsAnIdempotentRequestOnceMore) {
  auto second = request_on_dying_connection(GetParam());
  RawConnection fresh = listener_.accept();
  fresh.read_until("\r\n\r\n");
  fresh.send(std::string("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  const auto response = second.get();
  EXPECT_TRUE(response) << response.error().text();
}

INSTANTIATE_TEST_SUITE_P(ClientTest, StaleConnectionTest, ::testing::Values("GET", "PUT", "DELETE"),
                         [](const auto& tested) { return tested.param; });

TEST_F(StaleConnectionTest, DoesNotSendAPostTwice) {
  const auto response = request_on_dying_connection("POST").get();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kTimeout);
  EXPECT_THAT(response.error().text(), HasSubstr("whether it was carried out is not known"));
}

TEST_F(StaleConnectionTest, DoesNotTryForEver) {
  auto second = request_on_dying_connection("GET");
  RawConnection fresh = listener_.accept();
  fresh.read_until("\r\n\r\n");
  fresh.close(/*abruptly=*/true);
  const auto response = second.get();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace tessera::http
