// http/server.h
//
// A small HTTP/1.1 server for peers that may be slow, broken or hostile.
//
//   Server server = TRY(Server::create(loop, {.address = "0.0.0.0", .port = 32766},
//                                      [&](Request& request, Reply reply) {
//                                        request.set_route("filter");
//                                        reply.send({.body = respond(request.body())});
//                                      }));
//   ... server.port() ...
//   server.drain(5s, [&] { loop.stop(); });
//
// How it treats its peers:
//   - Connections are kept alive and carry one request at a time. Pipelining is rejected: if bytes
//     arrive before the response is sent, the first request gets a response with
//     "Connection: close", so the peer knows that the second one was not processed.
//   - The sizes of heads and bodies, the number of connections and the time for each step are
//     limited. A peer that exceeds a limit gets 400, 408, 413, 431, 501 or 505, and its connection
//     is closed. A peer that does not read its response is disconnected.
//   - When max_connections are open, a new connection replaces another one, so that a health probe
//     always gets an answer. Connections that have not completed a request are closed first, then
//     those whose requests were answered. Among these, the peer address with the most connections
//     loses its oldest one.
//   - One peer address gets at most 7/8 of max_connections. Beyond that, it only replaces its older ones.
//   - Responses that peers do not read are limited in the same way: if they need more than
//     max_responses_bytes, connections with such a response are closed.
//   - A connection whose request is in the handler is never replaced. If none can be replaced, the new
//     connection gets 503 and is closed (with TLS: only closed).
//   - Bodies are read into reused buffers with simdjson's padding.
//
// The handler runs on the loop's thread and must not block. The request and its body stay valid
// until the reply is sent.
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

// A finished request, for metrics. `route` is the route that the handler set, or "other" if it set
// none.
struct Access {
  std::string_view route;
  std::string_view method;
  int status = 0;
  std::uint64_t bytes_in = 0;        // size of the request body
  std::uint64_t bytes_out = 0;       // size of head and body; for a stream only of the body
  std::chrono::nanoseconds took{0};  // from the end of the request head to the end of the response
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free port; port() returns it
  std::optional<ServerTls> tls = {};
  std::size_t max_head_bytes = 16U << 10U;
  std::uint64_t max_body_bytes = 16U << 20U;
  // Limit for all request bodies in memory together. A request that would exceed it gets 503.
  std::uint64_t max_bodies_bytes = 64U << 20U;
  // Limit for all response bodies that are being written together.
  std::uint64_t max_responses_bytes = 64U << 20U;
  std::size_t max_connections = 1024;
  // Limits the time from the first byte to the end of the head. Also limits the TLS handshake. Does
  // not limit the wait for the first byte: Go's HTTP client opens spare connections, and does not
  // repeat a request if an unused connection is closed.
  std::chrono::milliseconds head_timeout{5'000};
  std::chrono::milliseconds body_timeout{30'000};
  std::chrono::milliseconds write_timeout{30'000};
  // Go's HTTP client closes idle connections after 90 s. The server must wait longer: if it closed
  // first, it could lose a request that the client sends at that moment.
  std::chrono::milliseconds idle_timeout{120'000};
  // A reader of a streamed response with more unsent bytes than this is disconnected.
  std::size_t max_stream_backlog = 8U << 20U;
  std::function<void(const Access&)> on_access = {};
  // If set, called for each response on a keep-alive connection. If it returns true, the connection
  // is closed after the response. Behind a load balancer, the peer then reconnects and may reach
  // another replica.
  std::function<bool()> close_after_response = {};
};

struct ServerStats {
  std::uint64_t connections = 0;  // open connections
  std::uint64_t in_flight = 0;    // requests that wait for the handler's reply
  // Totals since the start:
  std::uint64_t accepted = 0;
  std::uint64_t refused_full = 0;  // connections refused because all others were busy
  std::uint64_t evicted = 0;       // connections closed to make room for others
  std::uint64_t bad_requests = 0;  // rejected before the handler ran, with 4xx or 5xx
  std::uint64_t timeouts = 0;      // expired timeouts, except idle_timeout
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
  // "/filter?x=1" as received; path() is "/filter", query() is "x=1".
  [[nodiscard]] std::string_view target() const { return target_; }
  [[nodiscard]] std::string_view path() const { return target_.substr(0, target_.find('?')); }
  [[nodiscard]] std::string_view query() const;
  [[nodiscard]] const Headers& headers() const { return *headers_; }
  [[nodiscard]] json::PaddedView body() const { return body_; }
  // "10.0.0.7:41234".
  [[nodiscard]] const std::string& peer() const { return peer_; }
  // The common name of the client's verified certificate; "" without one.
  [[nodiscard]] const std::string& client_name() const { return client_name_; }

  // Sets the route for Access. Use a few fixed names, never text from the peer.
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

// A response that is written in pieces, such as a watch or an event stream. Any thread may use it,
// but only one at a time. Destroying it without end() breaks the connection, so that the peer can
// detect that the response is incomplete.
class [[nodiscard]] ReplyStream {
 public:
  ReplyStream() = default;
  ReplyStream(ReplyStream&&) noexcept = default;
  ReplyStream& operator=(ReplyStream&& other) noexcept;
  ReplyStream(const ReplyStream&) = delete;
  ReplyStream& operator=(const ReplyStream&) = delete;
  ~ReplyStream();

  // Queues `piece`. Returns false if the peer closed the connection or was disconnected for being
  // slow.
  bool write(std::string_view piece);
  // Completes the response.
  void end();
  [[nodiscard]] bool open() const;
  // Number of unsent bytes.
  [[nodiscard]] std::size_t backlog() const;

 private:
  friend class Reply;
  struct Impl;
  friend class ServerConnection;
  explicit ReplyStream(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// Sends the response to one request. Any thread may use it, now or later, but only once. If it is
// destroyed unused, the server responds 500. The loop must outlive it; the server need not.
class [[nodiscard]] Reply {
 public:
  Reply(Reply&&) noexcept = default;
  Reply& operator=(Reply&&) = delete;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  ~Reply();

  void send(Response response);
  // Responds with {"error": text} and this status.
  void send_error(int status, std::string_view text);
  // Starts a response in pieces (chunked). `response.body` is the first piece.
  ReplyStream stream(Response response);

  // Returns an empty string with the memory of an earlier response, to build a large body without
  // allocation. Call it only on the loop's thread.
  [[nodiscard]] std::string recycled();

 private:
  friend class ServerConnection;
  struct Impl;
  explicit Reply(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

class Server {
 public:
  using Handler = std::function<void(Request&, Reply)>;

  // Creates a server that is listening. Returns kInvalid if the address or a TLS file cannot be
  // used, kUnavailable if the port is taken.
  static Result<Server> create(EventLoop& loop, ServerOptions options, Handler handler);

  Server(Server&&) noexcept = default;
  Server& operator=(Server&&) = delete;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // Closes all connections. The handler is not called after this returns.
  ~Server();

  [[nodiscard]] std::uint16_t port() const;
  // Returns the current counters. Any thread may call this.
  [[nodiscard]] ServerStats stats() const;

  // Uses this certificate for new connections; open connections stay. Returns kInvalid, and keeps
  // the previous certificate, if `tls` cannot be used. Call it on the loop's thread, and only for a
  // server that was created with TLS.
  Status set_tls(const ServerTls& tls);

  // Stops accepting connections, closes idle ones, completes streams, and waits for handlers to
  // reply. Closes the remaining connections after `deadline`. Then calls `done` on the loop. Any
  // thread may call this.
  void drain(std::chrono::milliseconds deadline, std::function<void()> done);

  struct Impl;  // private to src/http; defined in server_impl.h

 private:
  explicit Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace tessera::http
