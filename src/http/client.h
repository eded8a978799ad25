// http/client.h
//
// An HTTP/1.1 client for one server, with a pool of keep-alive connections and verified TLS.
//
//   Client client =
//       TRY(Client::create(loop, {.url = "https://10.96.0.1", .tls = {.ca_file = ca}}));
//   Call call = client.send({.target = "/api/v1/nodes"},
//                           [](Result<ClientResponse> response) { ... });
//
// Error codes. They show whether the server may have processed the request:
//   kUnavailable  the server did not process the request: connecting failed, or the connection broke
//                 or a timeout expired before the request was sent. Also returned if a connection
//                 breaks during a request that changes nothing (GET, HEAD, OPTIONS)
//   kTimeout      the server may have processed the request: a timeout expired or the connection
//                 broke after the request was sent
//   kDenied       the server's certificate was rejected, or a proxy responded 403 or 407
//   kUnsupported  the server responded with a redirect; redirects are never followed
//   kExhausted    the response is larger than allowed
//   kInvalid      the request cannot be sent, or the response is not HTTP
//   kCancelled    cancel() was called
// A response with any status (404, 409, 500) is a success, not an error.
//
// A request is retried once, on a new connection, if a keep-alive connection breaks before the
// first byte of the response and a retry is safe. A retry is safe if the method changes nothing
// (GET, HEAD, OPTIONS), if the caller allows it (may_repeat), or if the request was not sent
// completely.
//
// Any thread may send, cancel and resume. Callbacks run on the loop's thread, one at a time.
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
#include "http/url.h"
#include "json/padded_buffer.h"

namespace tessera::http {

// Zero means no limit.
struct ClientTimeouts {
  std::chrono::milliseconds connect{10'000};     // name look-up, TCP, proxy and TLS together
  std::chrono::milliseconds first_byte{30'000};  // from the request to the first byte received
  std::chrono::milliseconds idle{30'000};        // between two bytes of the response
  std::chrono::milliseconds whole{60'000};       // from send() to the end of the response
};

using HeaderFields = std::vector<std::pair<std::string, std::string>>;

// Every field has a default; a caller sets only those it needs: {.url = "https://...", .tls = tls}.
struct ClientOptions {
  // "https://host:port", optionally with a path that is prepended to every target.
  std::string url = {};
  ClientTls tls = {};
  // The proxy to use: "http://user:password@host:port". proxy_for() in url.h finds it in the
  // environment. For https the proxy only forwards bytes (CONNECT).
  std::optional<Url> proxy = {};
  ClientTimeouts timeouts = {};
  std::string user_agent = "tessera";
  // Sent with every request.
  HeaderFields headers = {};
  // When all connections are in use, requests wait. A stream occupies a connection until it ends.
  std::size_t max_connections = 64;
  // How long an idle connection is kept. Must be shorter than the idle timeout of the server.
  std::chrono::milliseconds keep_idle{55'000};
  std::size_t max_idle_connections = 8;
};

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";
  HeaderFields headers = {};
  // Sent with Content-Length if it is not empty, or if the method is POST, PUT or PATCH.
  std::string body = {};
  // Whether processing the request twice has the same effect as processing it once. This is not
  // always true for PUT and DELETE: the second request may change an object that another client
  // created in between.
  bool may_repeat = false;
  // Overrides the timeouts of the client.
  std::optional<ClientTimeouts> timeouts = {};
  // Limit for the response body. Does not apply to streams.
  std::size_t max_response_bytes = 64U << 20U;
  // Whether a longer response body is cut off instead of rejected.
  bool cut_response = false;
  // Memory to reuse for the response body.
  json::PaddedBuffer buffer = {};
};

struct ResponseHead {
  int status = 0;
  std::string reason = {};
  Headers headers = {};
};

struct ClientResponse : ResponseHead {
  json::PaddedBuffer body = {};
};

// A sink's decision whether to receive more data.
enum class Flow {
  kContinue,
  // Stop reading until Call::resume() is called. TCP then slows the server down. While a stream is
  // paused, only the timeout `whole` applies.
  kPause,
};

// Receives a response in pieces.
struct StreamSink {
  // Called once, before any data, whatever the status is. May be empty.
  std::function<Flow(const ResponseHead&)> on_head = {};
  // The view is valid during the call and is followed by simdjson's padding.
  std::function<Flow(json::PaddedView)> on_data = {};
};

// A handle to a request in flight. Destroying it aborts the request. If it is destroyed on the
// loop's thread, no callback runs afterwards.
class [[nodiscard]] Call {
 public:
  Call() = default;
  Call(Call&&) noexcept = default;
  Call& operator=(Call&& other) noexcept;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

  // Aborts the request. `done` is called with kCancelled, unless it was called already.
  void cancel();
  // Continues a stream after the sink returned kPause.
  void resume();
  // Lets the request continue without this handle.
  void detach() { impl_.reset(); }
  // Returns whether `done` has not been called yet.
  [[nodiscard]] bool active() const;

  struct Impl;  // private to src/http; defined in client_impl.h

 private:
  friend class Client;
  explicit Call(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<Impl> impl_;
};

class Client {
 public:
  using OnResponse = std::function<void(Result<ClientResponse>)>;
  using OnEnd = std::function<void(Status)>;

  // Reads the TLS files. Does not connect. Returns kInvalid if the URL or a TLS file cannot be
  // used.
  static Result<Client> create(EventLoop& loop, ClientOptions options);

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  // Closes the idle connections. Requests in flight continue; their Calls still control them.
  ~Client();

  // Sends a request. `done` is called once with the response or an error, but never inside send().
  [[nodiscard]] Call send(ClientRequest request, OnResponse done);

  // Sends a request and passes the response to `sink` in pieces. `done` is called once, after the
  // last piece. A stream has no `whole` and `idle` timeouts unless the request sets them.
  [[nodiscard]] Call stream(ClientRequest request, StreamSink sink, OnEnd done);

  // Sends a request and waits for the response. Runs the loop itself if no other thread does, as in
  // a command-line program. Must not be called on the loop's thread.
  [[nodiscard]] Result<ClientResponse> fetch(ClientRequest request);

  // Return the numbers of open connections (in use or idle) and of idle connections, for metrics
  // and tests. Call them only on the loop's thread.
  [[nodiscard]] std::size_t open_connections() const;
  [[nodiscard]] std::size_t idle_connections() const;

  struct Impl;  // private to src/http; defined in client_impl.h

 private:
  explicit Client(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace tessera::http
