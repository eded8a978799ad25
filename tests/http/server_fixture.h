// Test fixture with a server on loopback whose event loop runs on its own thread.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "http/server.h"
#include "raw_peer.h"

namespace tessera::http {

// Waits for a condition that another thread makes true. Returns false after ten seconds.
inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() : thread_([this] { loop_.run(); }) {}
  ~ServerTest() override {
    server_.reset();
    loop_.stop();
  }

  // Starts a server. Without a handler it responds "METHOD target body".
  Server& serve(ServerOptions options = {}, Server::Handler handler = nullptr) {
    if (handler == nullptr) {
      handler = [](Request& request, Reply reply) {
        std::string body = std::string(request.method()) + " " + std::string(request.target()) + " ";
        body += request.body().text();
        reply.send({.content_type = "text/plain", .body = body});
      };
    }
    Result<Server> server = Server::create(loop_, std::move(options), std::move(handler));
    EXPECT_TRUE(server) << server.error().text();
    server_.emplace(*std::move(server));
    return *server_;
  }

  RawConnection connect() { return RawConnection::to(server_->port()); }

  // Reads one response, head and body. Its body must have a Content-Length.
  static std::string read_response(RawConnection& connection) {
    std::string response = connection.read_until("\r\n\r\n");
    const std::size_t field = response.find("Content-Length: ");
    if (field != std::string::npos) {
      response += connection.read_exactly(std::stoul(response.substr(field + 16)));
    }
    return response;
  }

  EventLoop loop_;
  std::optional<Server> server_;
  std::jthread thread_;
};

}  // namespace tessera::http
