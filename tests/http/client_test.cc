// What a caller of Client can count on, against servers that behave, misbehave and vanish.
#include "http/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "raw_peer.h"

namespace tessera::http {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// A client whose loop has a thread of its own, and a server to be scripted.
class ClientTest : public ::testing::Test {
 protected:
  ClientTest() : thread_([this] { loop_.run(); }) {}
  ~ClientTest() override {
    client_.reset();
    loop_.stop();
  }

  Client& client(ClientOptions options = {}) {
    if (options.url.empty()) {
      options.url = listener_.url();
    }
    Result<Client> made = Client::create(loop_, std::move(options));
    EXPECT_TRUE(made) << made.error().text();
    client_.emplace(*std::move(made));
    return *client_;
  }

  std::future<Result<ClientResponse>> fetch_soon(ClientRequest request) {
    auto shared = std::make_shared<ClientRequest>(std::move(request));
    return std::async(std::launch::async, [this, shared] { return client_->fetch(std::move(*shared)); });
  }

  EventLoop loop_;
  RawListener listener_;
  std::optional<Client> client_;
  std::jthread thread_;
};

TEST_F(ClientTest, SendsARequestAndReadsItsAnswer) {
  client({.user_agent = "tessera/test"});
  auto answer =
      fetch_soon({.method = "POST", .target = "/api?x=1", .headers = {{"Accept", "*/*"}}, .body = "{}"});
  RawConnection server = listener_.accept();
  EXPECT_EQ(server.read_until("{}"),
            "POST /api?x=1 HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(listener_.port()) +
                "\r\nUser-Agent: tessera/test\r\nAccept-Encoding: identity\r\n"
                "Accept: */*\r\nContent-Length: 2\r\n\r\n{}");
  server.send("HTTP/1.1 201 Created\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello");
  const Result<ClientResponse> response = answer.get();
  ASSERT_TRUE(response) << response.error().text();
  EXPECT_EQ(response->status, 201);
  EXPECT_EQ(response->headers.find("x-a"), "b");
  EXPECT_EQ(response->body.text(), "hello");
}

TEST_F(ClientTest, UsesAConnectionAgain) {
  client();
  auto first = fetch_soon({});
  RawConnection server = listener_.accept();
  server.read_until("\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  ASSERT_TRUE(first.get());
  auto second = fetch_soon({.target = "/second"});
  EXPECT_THAT(server.read_until("\r\n\r\n"), HasSubstr("GET /second"));
  server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  const Result<ClientResponse> response = second.get();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body.text(), "abcde");
}

TEST_F(ClientTest, StreamsPiecesAsTheyCome) {
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

}  // namespace
}  // namespace tessera::http
