// http/client_impl.h
//
// The hidden parts of Client and Call: connections and requests in flight. Private to this folder's
// .cc files. Everything here is used only on the loop's thread, except the atomic in Call::Impl.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "http/asio.h"
#include "http/client.h"
#include "http/event_loop_impl.h"
#include "http/message_reader.h"
#include "http/stream.h"
#include "http/tls_context.h"
#include "http/watchdog.h"

namespace tessera::http {

// The kernel drops a connection after this long without any packet from the server.
inline constexpr std::chrono::seconds kDeadAfter(20);

struct ClientConnection {
  explicit ClientConnection(Socket socket) : stream(std::move(socket)) {}

  Stream stream;
  MessageReader reader{MessageKind::kResponse, {}};
  json::PaddedBuffer in;  // bytes read and not yet consumed
  SteadyTime idle_since{};
};

// One request. Shared by the coroutine that runs the request and the Call handle.
struct Call::Impl {
  Impl(EventLoop& owner, ClientRequest what, ClientTimeouts limits);

  EventLoop& loop;
  ClientRequest request;
  ClientTimeouts timeouts;
  bool streaming = false;
  bool may_call_back = false;  // send() or stream() no longer runs on the loop's thread
  StreamSink sink;
  Client::OnResponse on_response;
  Client::OnEnd on_end;

  ClientResponse response;
  bool safe = false;                      // GET, HEAD or OPTIONS: the request changes nothing
  bool repeatable = false;                // may be sent twice
  bool sent = false;                      // the last byte was written
  bool sent_on_stale_connection = false;  // the first attempt was sent, then its connection broke
  bool response_started = false;          // a byte of the response has arrived
  bool abandoned = false;                 // the handle was destroyed: no more callbacks
  bool paused = false;
  bool kernel_gave_up = false;  // the kernel dropped the connection because the server was silent
  std::atomic<bool> finished = false;

  // Set when the request has to stop early. Every wait checks it when it resumes.
  std::optional<Error> interrupted;
  std::function<void()> abort;  // ends the current wait for the network
  // The request waits on this timer while it is paused or while all connections are in use. The
  // timer never expires. Cancelling it lets the request continue.
  SteadyTimer gate;
  SteadyTime whole_at = SteadyTime::max();
  const char* stage = "connecting";
  std::chrono::milliseconds stage_limit{0};
  Watchdog watchdog;

  // Starts a stage that may last until `limit` after `from`, but not longer than the whole request.
  // If `limit` is zero, only the limit of the whole request applies. `what` describes the stage in
  // error messages.
  void start_stage(std::chrono::milliseconds limit, const char* what,
                   SteadyTime from = std::chrono::steady_clock::now());
  // Makes the request end with `error`, wherever it waits.
  void interrupt(Error error);
  // Return the error for a broken connection (connection_error) or for an expired timeout
  // (timeout_error).
  [[nodiscard]] Error connection_error(std::string text) const;
  [[nodiscard]] Error timeout_error() const;
  // Calls the callback, at most once.
  void finish(Status status);
};

struct Client::Impl : std::enable_shared_from_this<Client::Impl> {
  Impl(EventLoop& owner, ClientOptions settings, Url where, std::optional<RotatingTls> material,
       std::string ready_fields);

  EventLoop& loop;
  ClientOptions options;
  Url url;
  std::optional<RotatingTls> tls;
  std::string fields;                                 // serialized headers of every request
  std::list<std::unique_ptr<ClientConnection>> idle;  // oldest first
  std::size_t open = 0;                               // connections: idle, in use or connecting
  std::deque<SteadyTimer*> waiting;                   // gates of requests without a connection
  std::size_t reserved = 0;                           // woken requests that have not resumed yet
  Watchdog reaper;
  bool closed = false;  // the Client was destroyed: no connection is kept

  // Returns whether a request has to wait: every connection is in use or reserved for a woken
  // request.
  [[nodiscard]] bool all_in_use() const {
    const std::size_t to_open = options.max_connections - std::min(open, options.max_connections);
    return idle.size() + to_open <= reserved;
  }
  [[nodiscard]] Executor executor() const { return loop.impl().io.get_executor(); }

  // client.cc: the connection pool.
  // Returns the most recently used idle connection that still works; null if there is none.
  std::unique_ptr<ClientConnection> take_idle();
  void return_to_pool(std::unique_ptr<ClientConnection> connection);
  // Closes a connection and makes room for another one. `connection` is null if connecting failed.
  void drop(std::unique_ptr<ClientConnection> connection);
  // Closes the connections that have been idle for keep_idle.
  void close_expired();
  // Closes the connections that became idle at the time `before` or earlier.
  void close_idle(SteadyTime before = SteadyTime::max());
  // Wakes the request that has waited longest for a connection.
  void wake_one();

  // client_connect.cc
  Task<Result<std::unique_ptr<ClientConnection>>> connect(std::shared_ptr<Call::Impl> call);

  // client_exchange.cc: runs one request, from waiting for a connection to the callback. `self`
  // keeps this object alive, because the coroutine may start after the Client was destroyed.
  Task<void> run_request(std::shared_ptr<Impl> self, std::shared_ptr<Call::Impl> call);

 private:
  Task<Result<Socket>> connect_tcp(Call::Impl& call, const Url& where);
  Task<Status> open_tunnel(Call::Impl& call, ClientConnection& connection);
  Task<Status> wait_for_connection(Call::Impl& call);
  // client_head.cc: returns the serialized head, or kInvalid if the request has an invalid part.
  [[nodiscard]] Result<std::string> request_head(const ClientRequest& request) const;
  // Sends the request and reads the response. `began` is the current time, which the caller has
  // just read. Sets `reusable` to true if the connection can carry another request.
  Task<Status> exchange(Call::Impl& call, ClientConnection& connection, SteadyTime began, bool& reusable);
};

// client_head.cc: returns "Host: ...\r\n" and the other headers of every request, or kInvalid.
Result<std::string> common_fields(const ClientOptions& options, const Url& url);
// client_connect.cc: returns "Proxy-Authorization: Basic ...\r\n", or "" if the proxy URL has no
// user.
std::string proxy_authorization(const Url& proxy);

}  // namespace tessera::http
