// A server on loopback whose loop has a thread of its own.
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

// Waits for a condition that another thread makes true; false after ten seconds.
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

  // Answers "METHOD target body" unless a handler is given.
  Server& serve(ServerOptions options = {}, Server::Handler handler = nullptr) {
    if (handler == nullptr) {
      handler = [](Request& request, Reply reply) {
        std::string body = std::string(request.method()) + " " + std::string(request.target()) + " ";
        body += request.body().text();
        reply.send({.content_type = "text/plain", .body = body});
      };
    }
    Result<Server> made = Server::create(loop_, std::move(options), std::move(handler));
    EXPECT_TRUE(made) << made.error().text();
    server_.emplace(*std::move(made));
    return *server_;
  }

  RawConnection connect() { return RawConnection::to(server_->port()); }

  // Reads one answer with a Content-Length, head and body.
  static std::string read_answer(RawConnection& connection) {
    std::string answer = connection.read_until("\r\n\r\n");
    const std::size_t field = answer.find("Content-Length: ");
    if (field != std::string::npos) {
      answer += connection.read_exactly(std::stoul(answer.substr(field + 16)));
    }
    return answer;
  }

  EventLoop loop_;
  std::optional<Server> server_;
  std::jthread thread_;
};

}  // namespace tessera::http
