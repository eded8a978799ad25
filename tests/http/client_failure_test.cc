// Errors and retries of Client when servers respond wrongly, late, partially or not at all.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <semaphore>

#include "client_fixture.h"

namespace {

// Look-ups of hangs.test block until they are released.
std::counting_semaphore hanging_lookups(0);
std::atomic<bool> lookup_was_waited_for = false;

}  // namespace

// Replaces the function of the C library, because a test cannot configure its name servers.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
  if (node != nullptr && std::string_view(node) == "hangs.test") {
    lookup_was_waited_for = !hanging_lookups.try_acquire_for(std::chrono::seconds(5));
    return EAI_AGAIN;
  }
  static const auto real = reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(node, service, hints, found);
}

namespace tessera::http {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// A bad response and the expected error.
struct BadResponse {
  const char* name;
  const char* method;
  std::string bytes;
  ErrorCode code;
  const char* text;
};

class BadResponseTest : public ClientTest, public ::testing::WithParamInterface<BadResponse> {};

TEST_P(BadResponseTest, ReturnsItsOwnError) {
  client();
  auto pending = fetch_soon({.method = GetParam().method, .max_response_bytes = 1000});
  RawConnection server = listener_.accept();
  server.read_until("\r\n\r\n");
  server.send(GetParam().bytes);
  server.end_sending();
  const Result<ClientResponse> response = pending.get();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), GetParam().code) << response.error().text();
  EXPECT_THAT(response.error().text(), HasSubstr(GetParam().text));
  EXPECT_THAT(response.error().text(),
              HasSubstr(std::string(GetParam().method) + " " + listener_.url() + "/"));
}

INSTANTIATE_TEST_SUITE_P(
    ClientTest, BadResponseTest,
    ::testing::Values(
        BadResponse{"NothingToGet", "GET", "", ErrorCode::kUnavailable,
                    "closed the connection without a response"},
        BadResponse{"NothingToPost", "POST", "", ErrorCode::kTimeout,
                    "whether the server processed it is unknown"},
        BadResponse{"HalfAHead", "POST", "HTTP/1.1 200 O", ErrorCode::kTimeout,
                    "in the middle of its response"},
        BadResponse{"HalfABody", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
                    ErrorCode::kUnavailable, "in the middle of its response"},
        BadResponse{"HalfAChunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
                    ErrorCode::kUnavailable, "in the middle of its response"},
        BadResponse{"NoLastChunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
                    ErrorCode::kUnavailable, "in the middle of its response"},
        BadResponse{"Garbage", "GET", "SSH-2.0-OpenSSH\r\n\r\n", ErrorCode::kInvalid,
                    "the response cannot be parsed"},
        BadResponse{"TooLong", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n",
                    ErrorCode::kExhausted, "larger than 1000 bytes"},
        BadResponse{"TooLongInChunks", "GET",
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'x') +
                        "\r\n0\r\n\r\n",
                    ErrorCode::kExhausted, "larger than 1000 bytes"},
        BadResponse{"Redirect", "GET",
                    "HTTP/1.1 302 Found\r\nLocation: http://evil/\r\nContent-Length: 0\r\n\r\n",
                    ErrorCode::kUnsupported, "a redirect to \"http://evil/\", which is not followed"}),
    [](const auto& tested) { return tested.param.name; });

TEST_F(ClientTest, ReturnsUnavailableIfNoServerListens) {
  listener_.close();
  client();
  const Result<ClientResponse> response = client_->fetch({.method = "POST"});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(response.error().text(), HasSubstr("cannot connect to 127.0.0.1:"));
}

TEST_F(ClientTest, ErrorsDoNotRepeatALongQuery) {
  listener_.close();
  client();
  const Result<ClientResponse> response = client_->fetch({.target = "/query?" + std::string(300, 'x')});
  ASSERT_FALSE(response);
  EXPECT_THAT(response.error().text(), HasSubstr("GET " + listener_.url() + "/query: "));
}

TEST_F(ClientTest, ReturnsUnavailableForAnUnknownHostName) {
  client({.url = "http://no-such-host.invalid:1"});
  const Result<ClientResponse> response = client_->fetch({});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(response.error().text(), HasSubstr("cannot connect to no-such-host.invalid:1"));
}

TEST_F(ClientTest, TheConnectTimeoutIncludesTheNameLookup) {
  client({.url = "http://hangs.test:1", .timeouts = {.connect = 30ms}});
  const Result<ClientResponse> response = client_->fetch({});
  hanging_lookups.release();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kUnavailable);
  EXPECT_THAT(response.error().text(), HasSubstr("connecting took longer than 30 ms"));
  EXPECT_FALSE(lookup_was_waited_for) << "the client waited for the look-up";
}

// A command-line program must be able to exit without waiting for the name server.
TEST(EventLoopTest, CanBeDestroyedDuringANameLookup) {
  {
    EventLoop loop;
    Client client = *Client::create(loop, {.url = "http://hangs.test:1", .timeouts = {.connect = 30ms}});
    EXPECT_FALSE(client.fetch({}));
  }
  hanging_lookups.release();
  EXPECT_FALSE(lookup_was_waited_for) << "the client waited for the look-up";
}

TEST_F(ClientTest, TimesOutIfTheResponseDoesNotBegin) {
  client({.timeouts = {.first_byte = 30ms}});
  auto pending = fetch_soon({});
  RawConnection server = listener_.accept();
  const Result<ClientResponse> response = pending.get();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kTimeout);
  EXPECT_THAT(response.error().text(), HasSubstr("waiting for the response to begin took longer than 30 ms"));
  EXPECT_THAT(response.error().text(), HasSubstr("GET " + listener_.url() + "/: "));
  server.read_until("\r\n\r\n");
  EXPECT_TRUE(server.closed_by_peer());
}

TEST_F(ClientTest, TimesOutIfTheResponseStopsInTheMiddle) {
  client({.timeouts = {.idle = 30ms}});
  auto pending = fetch_soon({});
  RawConnection server = listener_.accept();
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab");
  const Result<ClientResponse> response = pending.get();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kTimeout);
  EXPECT_THAT(response.error().text(), HasSubstr("waiting for the rest of the response"));
}

TEST_F(ClientTest, TheWholeTimeoutAppliesToASlowStream) {
  client();
  std::promise<Status> end;
  const Call call = client_->stream({.timeouts = ClientTimeouts{.whole = 1s}},
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
              HasSubstr("timed out after 1000 ms while waiting for the rest of the response"));
}

TEST_F(ClientTest, DoesNotReuseAConnectionThatTheServerClosed) {
  client();
  {
    auto first = fetch_soon({});
    RawConnection server = respond_once();
    ASSERT_TRUE(first.get());
  }
  auto second = fetch_soon({.method = "POST"});
  RawConnection server = respond_once();
  EXPECT_TRUE(second.get());
}

class SilentPathTest : public ClientTest {
 protected:
  // Leaves two idle connections in the pool, each with one finished request.
  void keep_two() {
    client();
    auto first = fetch_soon({});
    auto second = fetch_soon({});
    for (RawConnection* server : {&one_, &two_}) {
      *server = listener_.accept();
      server->read_until("\r\n\r\n");
    }
    for (RawConnection* server : {&one_, &two_}) {
      server->send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
    EXPECT_TRUE(first.get());
    EXPECT_TRUE(second.get());
    EXPECT_EQ(idle(), 2U);
  }
  std::size_t idle() {
    std::size_t count = 0;
    loop_.call([&] { count = client_->idle_connections(); });
    return count;
  }

  RawConnection one_{Fd()};
  RawConnection two_{Fd()};
};

// If each idle connection had to time out separately, a client would be unavailable for minutes.
TEST_F(SilentPathTest, ATimeoutClosesAllIdleConnections) {
  keep_two();
  ASSERT_FALSE(client_->fetch({.timeouts = ClientTimeouts{.first_byte = 30ms}}));
  auto next = fetch_soon({});
  RawConnection fresh = respond_once();
  EXPECT_TRUE(next.get());
}

TEST_F(SilentPathTest, KeepsConnectionsThatRespondedMeanwhile) {
  keep_two();
  std::promise<void> timed_out;
  const Call lost = client_->send({.target = "/lost", .timeouts = ClientTimeouts{.first_byte = 1s}},
                                  [&](const Result<ClientResponse>&) { timed_out.set_value(); });
  auto other = fetch_soon({.target = "/other"});
  // Either connection may get either request.
  for (RawConnection* server : {&one_, &two_}) {
    if (server->read_until("\r\n\r\n").find("/other") != std::string::npos) {
      server->send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
  }
  EXPECT_TRUE(other.get());
  timed_out.get_future().get();
  EXPECT_EQ(idle(), 1U);
}

// On one machine a test can check only the socket options, not that the kernel drops a dead
// connection.
TEST_F(ClientTest, EnablesKeepAliveProbes) {
  client();
  auto pending = fetch_soon({});
  RawConnection server = respond_once();
  ASSERT_TRUE(pending.get());
  int found = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.sin_family != AF_INET ||
        ntohs(peer.sin_port) != listener_.port()) {
      continue;
    }
    ++found;
    const auto option = [fd](int level, int name) {
      int value = 0;
      socklen_t length = sizeof value;
      EXPECT_EQ(::getsockopt(fd, level, name, &value, &length), 0);
      return value;
    };
    EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_LE(option(IPPROTO_TCP, TCP_KEEPIDLE) +
                  option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT),
              20);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 20'000);
  }
  EXPECT_EQ(found, 1);
}

// A keep-alive connection breaks during a request: is the request retried?
class StaleConnectionTest : public ClientTest {
 protected:
  // Sends a request on a keep-alive connection, which the server then resets.
  std::future<Result<ClientResponse>> request_on_dying_connection(ClientRequest request,
                                                                  bool then_stop_listening = false) {
    client();
    auto first = fetch_soon({});
    RawConnection server = respond_once();
    EXPECT_TRUE(first.get());
    auto second = fetch_soon(std::move(request));
    server.read_until("\r\n\r\n");
    if (then_stop_listening) {
      listener_.close();
    }
    server.close(/*abruptly=*/true);
    return second;
  }
};

TEST_F(StaleConnectionTest, RetriesSafeAndRepeatableRequests) {
  for (const auto& [method, may_repeat] :
       {std::pair("GET", false), std::pair("PUT", true), std::pair("DELETE", true)}) {
    auto second = request_on_dying_connection({.method = method, .may_repeat = may_repeat});
    RawConnection fresh = respond_once();
    const auto response = second.get();
    EXPECT_TRUE(response) << method << ": " << response.error().text();
  }
}

TEST_F(StaleConnectionTest, DoesNotRetryOtherRequests) {
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH"}) {
    const auto response = request_on_dying_connection({.method = method}).get();
    ASSERT_FALSE(response) << method;
    EXPECT_EQ(response.error().code(), ErrorCode::kTimeout) << method;
    EXPECT_THAT(response.error().text(), HasSubstr("whether the server processed it is unknown"));
  }
}

// kUnavailable would be wrong: it holds only for the retry.
TEST_F(StaleConnectionTest, ReturnsTimeoutIfTheRetryFailsAfterTheFirstAttemptWasSent) {
  const auto response =
      request_on_dying_connection({.method = "DELETE", .may_repeat = true}, /*then_stop_listening=*/true)
          .get();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kTimeout) << response.error().text();
  EXPECT_THAT(response.error().text(), HasSubstr("an earlier attempt was sent"));
}

TEST_F(StaleConnectionTest, RetriesOnlyOnce) {
  auto second = request_on_dying_connection({});
  RawConnection fresh = listener_.accept();
  fresh.read_until("\r\n\r\n");
  fresh.close(/*abruptly=*/true);
  const auto response = second.get();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace tessera::http
