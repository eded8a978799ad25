// http/server.h
//
// A small HTTP/1.1 server for peers that may be slow, broken or hostile.
//
//   Server server = TRY(Server::create(loop, {.address = "0.0.0.0", .port = 32766},
//                                      [&](Request& request, Reply reply) {
//                                        request.set_route("filter");
//                                        reply.send({.body = answer(request.body())});
//                                      }));
//   ... server.port() ...
//   server.drain(5s, [&] { loop.stop(); });
//
// What it does to its peers:
//   - Connections are kept alive. One request at a time: bytes that come before the answer is out
//   (pipelining)
//     are refused: the first request is answered with "Connection: close", and the connection ends after it,
//     which tells the peer that the second was not looked at.
//   - Heads, bodies, connections and the time for each step are limited. Too much or too late is answered
//   with
//     400, 408, 413, 431, 501 or 505 and the end of the connection; a peer that does not read its answer is
//     cut off.
//   - When all connections are taken, the one that has been idle longest makes room; when none is idle, the
//   new
//     one gets 503.
//   - Body bytes are read into a buffer that is used again and has simdjson's padding.
//
// The handler runs on the loop's thread and must not block. Request and Reply belong together: the request
// and its body stay valid until the reply is sent.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "http/event_loop.h"
#include "http/headers.h"
#include "http/tls.h"
#include "json/padded_buffer.h"

namespace tessera::http {

// One answered request, for metrics. The route is what the handler called it, "other" if it did not.
struct Access {
  std::string_view route;
  std::string_view method;
  int status = 0;
  std::uint64_t bytes_in = 0;        // of the body
  std::uint64_t bytes_out = 0;       // head and body
  std::chrono::nanoseconds took{0};  // from the end of the request's head to the end of the answer
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any; port() tells
  std::optional<ServerTls> tls = {};
  std::size_t max_head_bytes = 16U << 10U;
  std::uint64_t max_body_bytes = 16U << 20U;
  // Of all bodies that are being read or answered: what peers together can make the process take.
  std::uint64_t max_bodies_bytes = 64U << 20U;
  std::size_t max_connections = 1024;
  std::chrono::milliseconds head_timeout{10'000};  // from the first byte to the end of the head; also for TLS
  std::chrono::milliseconds body_timeout{30'000};
  std::chrono::milliseconds write_timeout{30'000};
  // Longer than the 90 s of Go's client, so that it is the client who closes: it would else now and then send
  // into a connection that is just being closed.
  std::chrono::milliseconds idle_timeout{120'000};
  // What a reply in pieces may have unsent before its reader counts as too slow.
  std::size_t max_stream_backlog = 8U << 20U;
  std::function<void(const Access&)> on_access = {};
  // Whether connections are to end after the answer that is being written: behind a balancer their peers then
  // come back to whoever it chooses now.
  std::function<bool()> let_go = {};
};

struct ServerStats {
  std::uint64_t connections = 0;  // open now
  std::uint64_t in_flight = 0;    // requests with the handler now
  std::uint64_t accepted = 0;     // the rest: since the start
  std::uint64_t refused_full = 0;
  std::uint64_t bad_requests = 0;  // 4xx and 5xx that the server itself gave
  std::uint64_t timeouts = 0;
  std::uint64_t tls_failures = 0;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// Views are valid until the reply is sent.
class Request {
 public:
  [[nodiscard]] std::string_view method() const { return method_; }
  // "/filter?x=1" as it came, its path and its query.
  [[nodiscard]] std::string_view target() const { return target_; }
  [[nodiscard]] std::string_view path() const { return target_.substr(0, target_.find('?')); }
  [[nodiscard]] std::string_view query() const;
  [[nodiscard]] const Headers& headers() const { return *headers_; }
  [[nodiscard]] json::PaddedView body() const { return body_; }
  // "10.0.0.7:41234".
  [[nodiscard]] const std::string& peer() const { return peer_; }
  // The common name of the client's verified certificate; "" without one.
  [[nodiscard]] const std::string& client_name() const { return client_name_; }

  // What Access calls this request: one of a few names, never something that the peer chose.
  void set_route(std::string_view route) { route_ = route; }

 private:
  friend class ServerConnection;
  std::string_view method_;
  std::string_view target_;
  const Headers* headers_ = nullptr;
  json::PaddedView body_;
  std::string peer_;
  std::string client_name_;
  std::string route_;
};

// An answer that is written piece by piece for as long as it takes: a watch, an event stream. Any thread, one
// at a time. Destroying it without end() cuts the connection, so that the peer knows that something is
// missing.
class [[nodiscard]] ReplyStream {
 public:
  ReplyStream() = default;
  ReplyStream(ReplyStream&&) noexcept = default;
  ReplyStream& operator=(ReplyStream&& other) noexcept;
  ReplyStream(const ReplyStream&) = delete;
  ReplyStream& operator=(const ReplyStream&) = delete;
  ~ReplyStream();

  // Sends `piece` as soon as the peer takes it. False: the peer is gone, or was cut off for being slow.
  bool write(std::string_view piece);
  // The answer is complete.
  void end();
  [[nodiscard]] bool open() const;
  // Bytes that wait for the peer.
  [[nodiscard]] std::size_t backlog() const;

 private:
  friend class Reply;
  struct State;
  friend class ServerConnection;
  explicit ReplyStream(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// The right to answer one request, once, now or later, from any thread. Destroyed unused it answers 500. The
// loop must outlive it; the server need not.
class [[nodiscard]] Reply {
 public:
  Reply(Reply&&) noexcept = default;
  Reply& operator=(Reply&&) = delete;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  ~Reply();

  void send(Response response);
  // {"error": text} with that status: for people and tools that called us wrongly.
  void send_error(int status, std::string_view text);
  // An answer in pieces (chunked); `response.body` is the first of them.
  ReplyStream stream(Response response);

  // An empty string with the memory of an earlier answer, to build a large one in. The loop's thread only.
  [[nodiscard]] std::string recycled();

 private:
  friend class ServerConnection;
  struct State;
  explicit Reply(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

class Server {
 public:
  using Handler = std::function<void(Request&, Reply)>;

  // Listens when it comes back. kInvalid: the address or the TLS material cannot be used; kUnavailable: the
  // port is taken.
  static Result<Server> create(EventLoop& loop, ServerOptions options, Handler handler);

  Server(Server&&) noexcept = default;
  Server& operator=(Server&&) = delete;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // Cuts everything off. The handler is not called any more when this comes back.
  ~Server();

  [[nodiscard]] std::uint16_t port() const;
  // Any thread.
  [[nodiscard]] ServerStats stats() const;

  // Any thread: accepts nothing more, ends idle connections and streams, lets the handler finish what it has,
  // and cuts off what is left at the deadline. Then calls `done` on the loop.
  void drain(std::chrono::milliseconds deadline, std::function<void()> done);

  struct Core;  // for src/http alone; server_core.h has it

 private:
  explicit Server(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  std::shared_ptr<Core> core_;
};

}  // namespace tessera::http
