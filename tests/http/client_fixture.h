// Test fixture with a client and a scripted server.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "http/client.h"
#include "raw_peer.h"

namespace tessera::http {

// A client whose event loop runs on its own thread, and a listener for a scripted server.
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

  // Accepts a connection and responds to one request on it, without a body.
  RawConnection respond_once() {
    RawConnection server = listener_.accept();
    server.read_until("\r\n\r\n");
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    return server;
  }

  EventLoop loop_;
  RawListener listener_;
  std::optional<Client> client_;
  std::jthread thread_;
};

}  // namespace tessera::http
