// Client: requests, responses, streams, the connection pool and proxies.
#include "http/client.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <thread>

#include "client_fixture.h"
#include "server_fixture.h"

namespace tessera::http {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST_F(ClientTest, SendsARequestAndReadsTheResponse) {
  client({.user_agent = "tessera/test"});
  auto pending =
      fetch_soon({.method = "POST", .target = "/api?x=1", .headers = {{"Accept", "*/*"}}, .body = "{}"});
  RawConnection server = listener_.accept();
  EXPECT_EQ(server.read_until("{}"),
            "POST /api?x=1 HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(listener_.port()) +
                "\r\nUser-Agent: tessera/test\r\nAccept-Encoding: identity\r\n"
                "Accept: */*\r\nContent-Length: 2\r\n\r\n{}");
  server.send("HTTP/1.1 201 Created\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello");
  const Result<ClientResponse> response = pending.get();
  ASSERT_TRUE(response) << response.error().text();
  EXPECT_EQ(response->status, 201);
  EXPECT_EQ(response->headers.find("x-a"), "b");
  EXPECT_EQ(response->body.text(), "hello");
}

TEST_F(ClientTest, ReusesAConnection) {
  client();
  auto first = fetch_soon({});
  RawConnection server = respond_once();
  ASSERT_TRUE(first.get());
  auto second = fetch_soon({.target = "/second"});
  EXPECT_THAT(server.read_until("\r\n\r\n"), HasSubstr("GET /second"));
  server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  const Result<ClientResponse> response = second.get();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body.text(), "abcde");
}

TEST_F(ClientTest, CutsALongResponseOffIfTheCallerAsksForIt) {
  client();
  const std::string body(200'000, 'x');
  const std::array responses = {
      fmt::format("Content-Length: {}\r\n\r\n{}", body.size(), body),
      fmt::format("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n", body.size(), body)};
  for (const std::string& sent : responses) {
    auto pending = fetch_soon({.max_response_bytes = 1'000, .cut_response = true});
    RawConnection server = listener_.accept();
    server.read_until("\r\n\r\n");
    server.send("HTTP/1.1 200 OK\r\nConnection: close\r\n" + sent);
    const Result<ClientResponse> response = pending.get();
    ASSERT_TRUE(response) << response.error().text();
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body.text(), body.substr(0, 1'000));
  }
}

TEST_F(ClientTest, StreamsPiecesAsTheyArrive) {
  client();
  std::promise<std::string> first_piece;
  std::promise<Status> end;
  int status = 0;
  const Call call = client_->stream({.target = "/watch"},
                                    {.on_head =
                                         [&](const ResponseHead& head) {
                                           status = head.status;
                                           return Flow::kContinue;
                                         },
                                     .on_data =
                                         [&](json::PaddedView piece) {
                                           first_piece.set_value(std::string(piece.text()));
                                           return Flow::kContinue;
                                         }},
                                    [&](Status result) { end.set_value(std::move(result)); });
  RawConnection server = listener_.accept();
  server.read_until("\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}{}\n\r\n");
  EXPECT_EQ(first_piece.get_future().get(), "{}{}\n");
  server.send("0\r\n\r\n");
  EXPECT_TRUE(end.get_future().get());
  EXPECT_EQ(status, 200);
}

TEST_F(ClientTest, ReadsABodyThatEndsWithTheConnection) {
  client();
  auto pending = fetch_soon({});
  RawConnection server = listener_.accept();
  server.read_until("\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\n\r\nall of it");
  server.end_sending();
  const Result<ClientResponse> response = pending.get();
  ASSERT_TRUE(response) << response.error().text();
  EXPECT_EQ(response->body.text(), "all of it");
}

TEST_F(ClientTest, ReadsAResponseToHeadWithoutWaitingForABody) {
  client();
  auto pending = fetch_soon({.method = "HEAD"});
  RawConnection server = listener_.accept();
  server.read_until("\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
  const Result<ClientResponse> response = pending.get();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->headers.find("Content-Length"), "100");
}

TEST_F(ClientTest, SkipsInterimResponses) {
  client();
  auto pending = fetch_soon({});
  RawConnection server = listener_.accept();
  server.read_until("\r\n\r\n");
  server.send("HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
  const Result<ClientResponse> response = pending.get();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 204);
  EXPECT_FALSE(response->headers.has("X"));
}

TEST_F(ClientTest, PrependsThePathOfTheUrlToEveryTarget) {
  client({.url = listener_.url() + "/k8s/clusters/c-1/"});
  auto pending = fetch_soon({.target = "/api"});
  RawConnection server = listener_.accept();
  EXPECT_THAT(server.read_until("\r\n\r\n"), ::testing::StartsWith("GET /k8s/clusters/c-1/api HTTP/1.1\r\n"));
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(pending.get());
}

TEST_F(ClientTest, RejectsRequestsThatWouldBreakTheHead) {
  client();
  EXPECT_EQ(client_->fetch({.target = "/a b"}).error().code(), ErrorCode::kInvalid);
  EXPECT_EQ(client_->fetch({.target = "/\r\nX: y"}).error().code(), ErrorCode::kInvalid);
  EXPECT_EQ(client_->fetch({.target = "http://x/"}).error().code(), ErrorCode::kInvalid);
  EXPECT_EQ(client_->fetch({.method = "GET /"}).error().code(), ErrorCode::kInvalid);
  EXPECT_EQ(client_->fetch({.headers = {{"A", "b\nc"}}}).error().code(), ErrorCode::kInvalid);
  EXPECT_EQ(client_->fetch({.headers = {{"A:", "b"}}}).error().code(), ErrorCode::kInvalid);
}

// On the loop's thread a request starts inside send(), and this one fails without any wait.
TEST_F(ClientTest, CallsBackAfterSendHasReturned) {
  client();
  auto first = fetch_soon({});
  const RawConnection server = respond_once();
  ASSERT_TRUE(first.get());
  std::promise<bool> had_returned;
  Call call;
  bool returned = false;
  loop_.post([&] {
    call = client_->send({.target = "/a b"}, [&](const Result<ClientResponse>& response) {
      EXPECT_EQ(response.error().code(), ErrorCode::kInvalid);
      had_returned.set_value(returned);
    });
    returned = true;
  });
  EXPECT_TRUE(had_returned.get_future().get());
}

// A request that is sent at the moment a connection becomes free must not overtake one that waits.
TEST_F(ClientTest, GivesAFreeConnectionToTheRequestThatWaited) {
  client({.max_connections = 1});
  std::array<Call, 3> calls;
  std::promise<void> all_done;
  const auto good = [](const Result<ClientResponse>& response) { EXPECT_TRUE(response); };
  loop_.post([&] {
    calls[0] = client_->send({.target = "/first"}, [&](const Result<ClientResponse>& response) {
      good(response);
      calls[2] = client_->send({.target = "/newcomer"}, [&](const Result<ClientResponse>& last) {
        good(last);
        all_done.set_value();
      });
    });
    calls[1] = client_->send({.target = "/waited"}, good);
  });
  RawConnection server = listener_.accept();
  for (const char* const expected : {"GET /first", "GET /waited", "GET /newcomer"}) {
    EXPECT_THAT(server.read_until("\r\n\r\n"), ::testing::StartsWith(expected));
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  }
  all_done.get_future().get();
}

TEST_F(ClientTest, RejectsCommonHeadersThatWouldBreakTheHead) {
  const auto client =
      Client::create(loop_, {.url = listener_.url(), .headers = {{"Impersonate-User", "a\r\nX: y"}}});
  ASSERT_FALSE(client);
  EXPECT_THAT(client.error().text(), HasSubstr("Impersonate-User"));
}

TEST_F(ClientTest, UsesTheBufferOfTheRequest) {
  client();
  json::PaddedBuffer buffer;
  const char* memory = buffer.prepare(1U << 20U).data();
  auto pending = fetch_soon({.buffer = std::move(buffer)});
  RawConnection server = listener_.accept();
  server.read_until("\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x'));
  const Result<ClientResponse> response = pending.get();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body.text().data(), memory);
  EXPECT_EQ(response->body.size(), 100'000U);
}

TEST_F(ClientTest, CallsBackOnceWhenCancelled) {
  client();
  std::promise<Result<ClientResponse>> done;
  Call call =
      client_->send({}, [&](Result<ClientResponse> response) { done.set_value(std::move(response)); });
  RawConnection server = listener_.accept();
  server.read_until("\r\n\r\n");
  call.cancel();
  call.cancel();
  const auto response = done.get_future().get();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(server.closed_by_peer());
  EXPECT_FALSE(call.active());
}

TEST_F(ClientTest, DoesNotCallBackWhenTheHandleIsDestroyedOnTheLoop) {
  client();
  bool called = false;
  loop_.call(
      [&] { const Call call = client_->send({}, [&](const Result<ClientResponse>&) { called = true; }); });
  // The second request is processed after anything that the first one could still do.
  auto second = fetch_soon({.target = "/second"});
  RawConnection server = listener_.accept();
  std::string head = server.read_until("\r\n\r\n");
  if (head.empty()) {  // the connection of the first request
    server = listener_.accept();
    head = server.read_until("\r\n\r\n");
  }
  EXPECT_THAT(head, HasSubstr("/second"));
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(second.get());
  EXPECT_FALSE(called);
}

TEST_F(ClientTest, ADetachedRequestContinues) {
  client();
  std::promise<void> done;
  client_
      ->send({},
             [&](const Result<ClientResponse>& response) {
               EXPECT_TRUE(response);
               done.set_value();
             })
      .detach();
  RawConnection server = respond_once();
  EXPECT_EQ(done.get_future().wait_for(5s), std::future_status::ready);
}

TEST_F(ClientTest, StopsReadingWhileASinkPauses) {
  client();
  std::atomic<std::size_t> received = 0;
  std::promise<Status> end;
  Call call = client_->stream({},
                              {.on_data =
                                   [&](json::PaddedView piece) {
                                     received += piece.size();
                                     return Flow::kPause;
                                   }},
                              [&](Status status) { end.set_value(std::move(status)); });
  RawConnection server = listener_.accept();
  server.read_until("\r\n\r\n");
  constexpr std::size_t size = 40'000'000;
  server.send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n");
  std::atomic<bool> all_sent = false;
  std::jthread sender([&] {
    server.send(std::string(size, 'x'));
    all_sent = true;
  });
  ASSERT_TRUE(eventually([&] { return received > 0; }));
  // The body exceeds the socket buffers, so the sender is blocked; the client has received one
  // piece.
  EXPECT_LE(received, 65'536U);
  EXPECT_FALSE(all_sent);
  auto over = end.get_future();
  while (over.wait_for(0s) != std::future_status::ready) {
    call.resume();
    std::this_thread::yield();
  }
  EXPECT_TRUE(over.get());
  EXPECT_EQ(received, size);
}

TEST_F(ClientTest, CancelsAPausedStream) {
  client();
  std::promise<void> paused;
  std::promise<Status> end;
  Call call = client_->stream({},
                              {.on_head =
                                   [&](const ResponseHead&) {
                                     paused.set_value();
                                     return Flow::kPause;
                                   }},
                              [&](Status status) { end.set_value(std::move(status)); });
  RawConnection server = listener_.accept();
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
  paused.get_future().get();
  call.cancel();
  EXPECT_EQ(end.get_future().get().error().code(), ErrorCode::kCancelled);
}

TEST_F(ClientTest, WaitsForAConnectionWhenAllAreInUse) {
  client({.max_connections = 1});
  auto first = fetch_soon({.target = "/a"});
  RawConnection server = listener_.accept();
  server.read_until("\r\n\r\n");
  auto second = fetch_soon({.target = "/b"});
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(first.get());
  EXPECT_THAT(server.read_until("\r\n\r\n"), HasSubstr("/b"));
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(second.get());
  EXPECT_TRUE(server.closed_by_peer());
}

TEST_F(ClientTest, EveryWaitingRequestGetsAConnection) {
  client({.max_connections = 2});
  std::vector<std::future<Result<ClientResponse>>> responses;
  for (int i = 0; i < 12; ++i) {
    responses.push_back(fetch_soon({.target = "/" + std::to_string(i)}));
  }
  const auto serve_all = [](RawConnection connection) {
    while (!connection.read_until("\r\n\r\n").empty()) {
      connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
  };
  const std::jthread first(serve_all, listener_.accept());
  const std::jthread second(serve_all, listener_.accept());
  for (auto& pending : responses) {
    EXPECT_TRUE(pending.get());
  }
  client_.reset();
}

TEST_F(ClientTest, ACancelledRequestPassesItsConnectionToTheNextOne) {
  client({.max_connections = 1});
  auto first = fetch_soon({.target = "/a"});
  RawConnection server = listener_.accept();
  server.read_until("\r\n\r\n");
  std::promise<void> cancelled;
  Call waiting =
      client_->send({.target = "/b"}, [&](const Result<ClientResponse>&) { cancelled.set_value(); });
  auto third = fetch_soon({.target = "/c"});
  waiting.cancel();
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(first.get());
  cancelled.get_future().get();
  EXPECT_THAT(server.read_until("\r\n\r\n"), HasSubstr("/c"));
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(third.get());
}

TEST_F(ClientTest, ClosesConnectionsThatAreIdleTooLong) {
  client({.keep_idle = 20ms});
  auto first = fetch_soon({});
  RawConnection server = respond_once();
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(server.closed_by_peer());
  std::size_t open = 1;
  loop_.call([&] { open = client_->open_connections(); });
  EXPECT_EQ(open, 0U);
}

TEST_F(ClientTest, FetchRunsTheLoopIfNoThreadDoes) {
  EventLoop own;
  const Client own_client = Client::create(own, {.url = listener_.url()}).value();
  std::jthread server([&] {
    RawConnection connection = listener_.accept();
    connection.read_until("\r\n\r\n");
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
  const auto response = const_cast<Client&>(own_client).fetch({});
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body.text(), "ok");
}

TEST_F(ClientTest, FetchFailsOnTheLoopsThread) {
  client();
  loop_.call([&] { EXPECT_EQ(client_->fetch({}).error().code(), ErrorCode::kInternal); });
}

TEST_F(ClientTest, TunnelsThroughAProxyWithItsPassword) {
  client({.url = "https://kube.test:6443",
          .proxy =
              parse_url("http://me:s%20ecret@127.0.0.1:" + std::to_string(listener_.port()), true).value()});
  auto pending = fetch_soon({});
  RawConnection proxy = listener_.accept();
  EXPECT_EQ(proxy.read_until("\r\n\r\n"),
            "CONNECT kube.test:6443 HTTP/1.1\r\nHost: kube.test:6443\r\nUser-Agent: tessera\r\n"
            "Proxy-Authorization: Basic bWU6cyBlY3JldA==\r\n\r\n");
  proxy.send("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
  const auto response = pending.get();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code(), ErrorCode::kDenied);
  EXPECT_THAT(response.error().text(), HasSubstr("refused CONNECT kube.test:6443: 407"));
  EXPECT_THAT(response.error().text(), ::testing::Not(HasSubstr("ecret")));
}

TEST_F(ClientTest, SendsAProxyTheFullUrlOfAPlainRequest) {
  client({.url = "http://kube.test:8080", .proxy = parse_url(listener_.url()).value()});
  auto pending = fetch_soon({.target = "/api"});
  RawConnection proxy = listener_.accept();
  EXPECT_THAT(proxy.read_until("\r\n\r\n"),
              ::testing::StartsWith("GET http://kube.test:8080/api HTTP/1.1\r\nHost: kube.test:8080\r\n"));
  proxy.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(pending.get());
}

}  // namespace
}  // namespace tessera::http
