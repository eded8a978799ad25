// http/client_core.h
//
// The inside of Client: its connections and its requests under way. For the .cc files of this folder.
// Everything here is touched on the loop's thread alone, but for the atomic of Call::State.
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
#include "http/event_loop_core.h"
#include "http/message_reader.h"
#include "http/stream.h"
#include "http/tls_context.h"
#include "http/watchdog.h"

namespace tessera::http {

// After so long without a sign of life from the server's kernel, ours gives a connection up.
inline constexpr std::chrono::seconds kDeadAfter(20);

struct ClientConnection {
  explicit ClientConnection(Socket socket) : stream(std::move(socket)) {}

  Stream stream;
  MessageReader reader{MessageKind::kResponse, {}};
  json::PaddedBuffer in;  // bytes read and not yet consumed
  SteadyTime idle_since{};
};

// The inside of a Call. The coroutine that carries the request out holds it, and so does the handle.
struct Call::State {
  State(EventLoop& owner, ClientRequest what, ClientTimeouts limits);

  EventLoop& loop;
  ClientRequest request;
  ClientTimeouts timeouts;
  bool streaming = false;
  bool handed_out = false;  // the caller has its handle, or as good as: it may be called back
  StreamSink sink;
  Client::OnResponse on_response;
  Client::OnEnd on_end;

  ClientResponse response;
  bool safe = false;         // GET and the like: there is no outcome to be unsure of
  bool repeatable = false;   // may be sent twice
  bool sent = false;         // the last byte is out
  bool sent_before = false;  // on a connection that broke
  bool answered = false;     // a byte of the answer has come
  bool forgotten = false;    // the handle is gone: no callback any more
  bool paused = false;
  bool cut_off = false;  // the kernel gave the connection up: the server's does not answer any more
  std::atomic<bool> over = false;

  // Why the request has to end before its time; everything that waits looks at it when it wakes up.
  std::optional<Error> interrupted;
  std::function<void()> abort;  // wakes up what waits now
  SteadyTimer gate;             // where a paused stream or a request without a connection waits
  SteadyTime whole_at = SteadyTime::max();
  const char* stage = "connecting";
  std::chrono::milliseconds stage_limit{0};
  Watchdog watchdog;

  // Until `limit` from now, or the end of the whole request if that is sooner. Zero: only the latter.
  void allow(std::chrono::milliseconds limit, const char* what,
             SteadyTime from = std::chrono::steady_clock::now());
  void interrupt(Error error);
  // The error for a connection that broke, or a time that is up.
  [[nodiscard]] Error broken(std::string text) const;
  [[nodiscard]] Error late() const;
  // Calls back, once.
  void finish(Status status);
};

struct Client::Core : std::enable_shared_from_this<Client::Core> {
  Core(EventLoop& owner, ClientOptions settings, Url where, std::optional<RotatingTls> material,
       std::string ready_fields);

  EventLoop& loop;
  ClientOptions options;
  Url url;
  std::optional<RotatingTls> tls;
  std::string fields;                                 // of the head of every request, ready to be sent
  std::list<std::unique_ptr<ClientConnection>> idle;  // the oldest first
  std::size_t open = 0;                               // idle ones and those in use or being made
  std::deque<SteadyTimer*> waiting;                   // requests without a connection
  std::size_t promised = 0;                           // to requests that are being woken
  Watchdog reaper;
  bool shut = false;  // the Client is gone: nothing is kept any more

  // Who comes now must not take what somebody who waited was woken for.
  [[nodiscard]] bool all_in_use() const {
    const std::size_t to_open = options.max_connections - std::min(open, options.max_connections);
    return idle.size() + to_open <= promised;
  }
  [[nodiscard]] Executor executor() const { return loop.core().io.get_executor(); }

  // client.cc: the pool.
  std::unique_ptr<ClientConnection> take_idle();
  void give_back(std::unique_ptr<ClientConnection> connection);
  void drop(std::unique_ptr<ClientConnection> connection);
  void reap();
  // Those that have not been used since `before`.
  void close_idle(SteadyTime before = SteadyTime::max());
  void wake_one();

  // client_connect.cc
  Task<Result<std::unique_ptr<ClientConnection>>> connect(std::shared_ptr<Call::State> call);

  // client_exchange.cc: carries out one request from the wait for a connection to the callback. `self` is
  // this: the first step may come when the Client is gone.
  Task<void> carry_out(std::shared_ptr<Core> self, std::shared_ptr<Call::State> call);

 private:
  Task<Result<Socket>> reach(Call::State& call, const Url& where);
  Task<Status> tunnel(Call::State& call, ClientConnection& connection);
  Task<Status> wait_for_turn(Call::State& call);
  // client_head.cc: as it goes over the wire; kInvalid when it would not be one.
  [[nodiscard]] Result<std::string> request_head(const ClientRequest& request) const;
  // `began`: now.
  Task<Status> exchange(Call::State& call, ClientConnection& connection, SteadyTime began, bool& reusable);
};

// client_head.cc: "Host: ...\r\n" and what else goes with every request; kInvalid when it cannot.
Result<std::string> common_fields(const ClientOptions& options, const Url& url);
// client_connect.cc: "Proxy-Authorization: Basic ...\r\n", or "" for a proxy that needs none.
std::string proxy_authorization(const Url& proxy);

}  // namespace tessera::http
