#include "http/server.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <ctime>
#include <tuple>

#include "http/server_impl.h"
#include "json/escape.h"

namespace tessera::http {
namespace {

// Limits for body buffers that are kept for reuse.
constexpr std::size_t kSpareBodies = 4;
constexpr std::size_t kSpareBodyBytes = 8U << 20U;
// When out of file descriptors, retrying at once would keep the CPU busy.
constexpr std::chrono::milliseconds kAcceptPause{50};

void rethrow(const std::exception_ptr& error) {
  if (error) {
    std::rethrow_exception(error);  // handlers must not throw; this ends the process
  }
}

}  // namespace

std::string_view Request::query() const {
  const std::size_t mark = target_.find('?');
  return mark == std::string_view::npos ? std::string_view() : target_.substr(mark + 1);
}

namespace {

template <class Impl>
std::shared_ptr<ServerConnection> lock(const Impl& impl) {
  if constexpr (requires { impl.connection.lock(); }) {
    return impl.connection.lock();
  } else {
    return impl.connection;
  }
}

// Runs `what` on the loop with the connection of a Reply or a ReplyStream. The posted task owns
// `impl`: a Reply may own the last reference to the connection, which must be destroyed on the
// loop.
template <class Impl, class What>
void on_connection(std::shared_ptr<Impl> impl, What what) {
  EventLoop& loop = impl->loop;
  auto act = [impl = std::move(impl), what = std::move(what)]() mutable {
    if (const std::shared_ptr<ServerConnection> connection = lock(*impl)) {
      what(*connection);
    }
  };
  if (loop.here()) {
    act();
  } else {
    loop.post(std::move(act));
  }
}

}  // namespace

Reply::~Reply() {
  if (impl_ != nullptr) {
    send_error(500, "the handler sent no response");
  }
}

void Reply::send(Response response) {
  // std::function requires a copyable target, and a response may be large.
  auto shared = std::make_shared<Response>(std::move(response));
  if (std::shared_ptr<Impl> impl = std::move(impl_)) {
    on_connection(std::move(impl), [shared](ServerConnection& to) { to.set_response(std::move(*shared)); });
  }
}

void Reply::send_error(int status, std::string_view text) {
  Response response{.status = status};
  response.body = "{\"error\":";
  json::append_quoted(response.body, text);
  response.body += "}\n";
  send(std::move(response));
}

ReplyStream Reply::stream(Response response) {
  std::shared_ptr<Impl> impl = std::move(impl_);
  if (impl == nullptr) {
    return {};
  }
  auto stream = std::make_shared<ReplyStream::Impl>(impl->loop);
  stream->connection = impl->connection;
  on_connection(std::move(impl),
                [response = std::move(response), stream](ServerConnection& connection) mutable {
                  connection.start_stream(std::move(response), stream);
                });
  return ReplyStream(stream);
}

std::string Reply::recycled() {
  return impl_ != nullptr && impl_->loop.here() ? impl_->connection->recycled() : std::string();
}

ReplyStream& ReplyStream::operator=(ReplyStream&& other) noexcept {
  if (this != &other) {
    const ReplyStream ended(std::move(*this));
    impl_ = std::move(other.impl_);
  }
  return *this;
}

ReplyStream::~ReplyStream() {
  if (impl_ != nullptr) {
    on_connection(impl_, [](ServerConnection& connection) { connection.end_stream(/*complete=*/false); });
  }
}

bool ReplyStream::write(std::string_view piece) {
  if (!open()) {
    return false;
  }
  if (piece.empty()) {
    return true;  // an empty chunk would end the response
  }
  impl_->backlog += piece.size();
  on_connection(impl_, [text = std::string(piece)](ServerConnection& connection) {
    connection.append_to_stream(text);
  });
  return true;
}

void ReplyStream::end() {
  if (impl_ != nullptr) {
    on_connection(impl_, [](ServerConnection& connection) { connection.end_stream(/*complete=*/true); });
    impl_.reset();
  }
}

bool ReplyStream::open() const {
  return impl_ != nullptr && impl_->open && !impl_->connection.expired();
}

std::size_t ReplyStream::backlog() const {
  return impl_ == nullptr ? 0 : impl_->backlog.load();
}

Server::Impl::Impl(EventLoop& owner, ServerOptions settings, Handler what,
                   std::optional<RotatingTls> material)
    : loop(owner),
      options(std::move(settings)),
      handler(std::move(what)),
      tls(std::move(material)),
      acceptor(owner.impl().io.get_executor()),
      drain_watchdog(owner.impl().deadlines, [this] { close_all(); }) {}

Status Server::Impl::listen() {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options.address, error);
  if (error) {
    return fail(ErrorCode::kInvalid,
                fmt::format("cannot listen on \"{}\": not an IP address", options.address));
  }
  const tcp::endpoint endpoint(address, options.port);
  error = acceptor.open(endpoint.protocol(), error);
  if (!error) {
    error = acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  }
  if (!error) {
    error = acceptor.bind(endpoint, error);
  }
  if (!error) {
    error = acceptor.listen(asio::socket_base::max_listen_connections, error);
  }
  if (error) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("cannot listen on {}:{}: {}", options.address, options.port, error.message()));
  }
  port = acceptor.local_endpoint(error).port();
  return {};
}

Task<void> Server::Impl::accept() {
  const std::shared_ptr<Impl> alive = shared_from_this();
  while (acceptor.is_open()) {
    Socket socket(executor());
    const auto [error] = co_await acceptor.async_accept(socket, kAwait);
    if (!acceptor.is_open()) {
      break;
    }
    if (!error) {
      add_connection(std::move(socket));
    } else {
      // Usually out of file descriptors or memory. The peer stays in the queue, so a retry at once
      // would fail again.
      SteadyTimer pause(executor(), kAcceptPause);
      co_await pause.async_wait(kAwait);
    }
  }
}

void Server::Impl::add_connection(Socket socket) {
  ++counters.accepted;
  error_code ignored;
  if (!make_room(socket.remote_endpoint(ignored).address())) {
    ++counters.refused_full;
    constexpr std::string_view full =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    ignored = socket.non_blocking(true, ignored);
    if (!tls) {
      socket.send(asio::const_buffer(full.data(), full.size()), 0, ignored);
    }
    end_sending_quietly(socket);
    return;
  }
  auto connection = std::make_shared<ServerConnection>(shared_from_this(), std::move(socket));
  connections.insert(connection);
  ++by_peer[connection->address()];
  counters.connections = connections.size();
  asio::co_spawn(executor(), connection->serve(), rethrow);
}

void Server::Impl::remove(const std::shared_ptr<ServerConnection>& connection) {
  if (connections.erase(connection) == 0) {
    return;  // it was closed to make room
  }
  const auto peer = by_peer.find(connection->address());
  if (--peer->second == 0) {
    by_peer.erase(peer);
  }
  connection->set_unsent(0);
  counters.connections = connections.size();
  if (draining && connections.empty() && drained) {
    drain_watchdog.off();
    const std::function<void()> done = std::exchange(drained, nullptr);
    done();
  }
}

void Server::Impl::close_all() {
  close_quietly(acceptor);
  // Each connection removes itself from the set when its coroutine ends.
  for (const auto& connection : connections) {
    connection->close();
  }
}

json::PaddedBuffer Server::Impl::take_body_buffer() {
  if (spare_bodies.empty()) {
    return {};
  }
  json::PaddedBuffer body = std::move(spare_bodies.back());
  spare_bodies.pop_back();
  return body;
}

void Server::Impl::return_body_buffer(json::PaddedBuffer body) {
  body.clear_and_trim(kSpareBodyBytes);
  if (body.capacity() > 0 && spare_bodies.size() < kSpareBodies) {
    spare_bodies.push_back(std::move(body));
  }
}

std::string_view Server::Impl::date_field() {
  const std::time_t now = std::time(nullptr);
  if (now != date_second_) {
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    std::array<char, 48> text{};
    const std::size_t size =
        std::strftime(text.data(), text.size(), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts);
    date_.assign(text.data(), size);
    date_second_ = now;
  }
  return date_;
}

Result<Server> Server::create(EventLoop& loop, ServerOptions options, Handler handler) {
  std::optional<RotatingTls> tls;
  if (options.tls) {
    tls = TRY(RotatingTls::for_server(*options.tls));
  }
  auto impl = std::make_shared<Impl>(loop, std::move(options), std::move(handler), std::move(tls));
  TRY(impl->listen());
  loop.post([impl] { asio::co_spawn(impl->executor(), impl->accept(), rethrow); });
  return Server(std::move(impl));
}

Server::~Server() {
  if (impl_ == nullptr) {
    return;
  }
  impl_->loop.call([this] {
    impl_->handler = nullptr;
    impl_->drained = nullptr;
    impl_->drain_watchdog.off();
    impl_->options.on_access = nullptr;
    impl_->close_all();
    // The connections own the Impl, too. Break the cycle here, because the loop may never run
    // again.
    impl_->connections.clear();
  });
}

std::uint16_t Server::port() const {
  return impl_->port;
}

Status Server::set_tls(const ServerTls& tls) {
  RotatingTls next = TRY(RotatingTls::for_server(tls));
  impl_->tls = std::move(next);
  return {};
}

ServerStats Server::stats() const {
  const Impl::Counters& now = impl_->counters;
  return {.connections = now.connections,
          .in_flight = now.in_flight,
          .accepted = now.accepted,
          .refused_full = now.refused_full,
          .evicted = now.evicted,
          .bad_requests = now.bad_requests,
          .timeouts = now.timeouts,
          .tls_failures = now.tls_failures};
}

void Server::drain(std::chrono::milliseconds deadline, std::function<void()> done) {
  impl_->loop.post([impl = impl_, deadline, done = std::move(done)] {
    impl->draining = true;
    impl->drained = done;
    close_quietly(impl->acceptor);
    const auto connections = impl->connections;  // a copy, because drain() may remove a connection
    for (const auto& connection : connections) {
      connection->drain();
    }
    impl->drain_watchdog.in(deadline);
    if (impl->connections.empty() && impl->drained) {
      std::exchange(impl->drained, nullptr)();
    }
  });
}

}  // namespace tessera::http
