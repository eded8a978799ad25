// http/client.h
//
// Requests to one server: a pool of kept-alive HTTP/1.1 connections, TLS that is always verified, and answers
// that say what is known.
//
//   Client client = TRY(Client::create(loop, {.url = "https://10.96.0.1", .tls = {.ca_file = ca}}));
//   Call call = client.send({.target = "/api/v1/nodes"}, [](Result<ClientResponse> response) { ... });
//
// Error codes, which matter when the request changes something:
//   kUnavailable  the server has not got the request (not reached, or the connection broke before the whole
//                 request was out), or it was one that changes nothing (GET, HEAD)
//   kTimeout      a time-out passed, or the connection broke after the request was out: it may or may not
//   have
//                 been carried out
//   kDenied       the server's certificate is not accepted, or a proxy refused us
//   kUnsupported  the server answered with a redirect; none is ever followed
//   kExhausted    the answer is larger than allowed
//   kInvalid      the request cannot be sent, or the answer is not HTTP
//   kCancelled    cancel() was called
// Any status that the server sends (404, 409, 500) is an answer, not an error.
//
// A request on a kept-alive connection that dies before any byte of the answer is sent once more on a fresh
// one when that is safe: it changes nothing (GET, HEAD, OPTIONS), its maker says so (may_repeat), or not all
// of it was out.
//
// Any thread may send, cancel and resume. All callbacks come on the loop's thread, one after the other.
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

// Zero means: no such limit.
struct ClientTimeouts {
  std::chrono::milliseconds connect{10'000};     // name look-up, TCP, proxy and TLS together
  std::chrono::milliseconds first_byte{30'000};  // from the request to the first byte of the answer
  std::chrono::milliseconds idle{30'000};        // between two bytes of the answer
  std::chrono::milliseconds whole{60'000};       // from send() to the end of the answer
};

using HeaderFields = std::vector<std::pair<std::string, std::string>>;

// Every field has a default, so that a caller names only what it wants: {.url = "https://...", .tls = tls}.
struct ClientOptions {
  // "https://host:port", also with a path that goes before every target.
  std::string url = {};
  ClientTls tls = {};
  // Go through this proxy ("http://user:password@host:port"); ProxySettings and proxy_for() find the
  // environment's. For https the proxy only passes bytes on (CONNECT).
  std::optional<Url> proxy = {};
  ClientTimeouts timeouts = {};
  std::string user_agent = "tessera";
  // Go with every request.
  HeaderFields headers = {};
  // Beyond this many, requests wait for a connection. A stream holds one as long as it lasts.
  std::size_t max_connections = 64;
  // How long an unused connection is kept; must be less than what the server grants.
  std::chrono::milliseconds keep_idle{55'000};
  std::size_t max_idle_connections = 8;
};

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";
  HeaderFields headers = {};
  std::string body = {};  // sent with Content-Length when not empty, or when the method is POST, PUT or PATCH
  // Carrying it out twice is the same as once. PUT and DELETE alone do not say so: the second may hit what
  // somebody else made in between.
  bool may_repeat = false;
  // Instead of the client's.
  std::optional<ClientTimeouts> timeouts = {};
  // Of the answer; a stream has no limit.
  std::size_t max_response_bytes = 64U << 20U;
  // Memory for the answer, to be used again.
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

// What a sink wants next.
enum class Flow {
  kContinue,
  kPause,  // nothing until Call::resume(); the server feels it through TCP. No time-out but `whole` runs.
};

// Takes an answer piece by piece.
struct StreamSink {
  // Once, before any data, whatever the status is. May be empty.
  std::function<Flow(const ResponseHead&)> on_head = {};
  // Views are valid during the call and have simdjson's padding behind them.
  std::function<Flow(json::PaddedView)> on_data = {};
};

// A request under way. Destroying it ends the request, and no callback comes any more when that happens on
// the loop's thread.
class [[nodiscard]] Call {
 public:
  Call() = default;
  Call(Call&&) noexcept = default;
  Call& operator=(Call&& other) noexcept;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

  // Ends the request; `done` is called with kCancelled, unless it was called already.
  void cancel();
  // After a sink said kPause.
  void resume();
  // Lets the request go on without this handle.
  void detach() { state_.reset(); }
  // Whether `done` is still to come.
  [[nodiscard]] bool active() const;

  struct State;  // for src/http alone; client_core.h has it

 private:
  friend class Client;
  explicit Call(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

class Client {
 public:
  using OnResponse = std::function<void(Result<ClientResponse>)>;
  using OnEnd = std::function<void(Status)>;

  // Reads the TLS material. kInvalid when the URL or a file of it cannot be used. Does not connect.
  static Result<Client> create(EventLoop& loop, ClientOptions options);

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  // Ends the idle connections. Requests under way go on until their Call ends them.
  ~Client();

  // `done` comes once, later, never from inside send().
  [[nodiscard]] Call send(ClientRequest request, OnResponse done);

  // The same with the answer in pieces. The time-outs `whole` and `idle` of a stream are off unless the
  // request sets them.
  [[nodiscard]] Call stream(ClientRequest request, StreamSink sink, OnEnd done);

  // Waits for the answer. Runs the loop itself where nobody does (a command-line program); otherwise call it
  // from any thread but the loop's.
  [[nodiscard]] Result<ClientResponse> fetch(ClientRequest request);

  // Connections that are open now, used and idle: for metrics and tests. The loop's thread only.
  [[nodiscard]] std::size_t open_connections() const;
  [[nodiscard]] std::size_t idle_connections() const;

  struct Core;  // likewise

 private:
  explicit Client(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  std::shared_ptr<Core> core_;
};

}  // namespace tessera::http
