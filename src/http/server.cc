#include "http/server.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <ctime>

#include "http/server_core.h"
#include "json/escape.h"

namespace tessera::http {
namespace {

// What is kept of the memory that bodies were read into.
constexpr std::size_t kSpareBodies = 4;
constexpr std::size_t kSpareBodyBytes = 8U << 20U;
// Out of file descriptors: trying again at once would burn the processor.
constexpr std::chrono::milliseconds kAcceptPause{50};

void rethrow(const std::exception_ptr& error) {
  if (error) {
    std::rethrow_exception(error);  // a handler threw, against the rules: the loop's thread ends the process
  }
}

}  // namespace

std::string_view Request::query() const {
  const std::size_t mark = target_.find('?');
  return mark == std::string_view::npos ? std::string_view() : target_.substr(mark + 1);
}

namespace {

template <class State>
std::shared_ptr<ServerConnection> lock(const State& state) {
  if constexpr (requires { state.connection.lock(); }) {
    return state.connection.lock();
  } else {
    return state.connection;
  }
}

// What a Reply or a ReplyStream wants done on the connection, on its thread. The state goes along: its last
// reference may be the connection's last one too, and that has to end on the loop.
template <class State, class What>
void on_connection(std::shared_ptr<State> state, What what) {
  EventLoop& loop = state->loop;
  auto act = [state = std::move(state), what = std::move(what)]() mutable {
    if (const std::shared_ptr<ServerConnection> connection = lock(*state)) {
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
  if (state_ != nullptr) {
    send_error(500, "the request was dropped without an answer");
  }
}

void Reply::send(Response response) {
  // std::function wants to be copied, and an answer may be large.
  auto shared = std::make_shared<Response>(std::move(response));
  if (std::shared_ptr<State> state = std::move(state_)) {
    on_connection(std::move(state), [shared](ServerConnection& to) { to.answer(std::move(*shared)); });
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
  std::shared_ptr<State> state = std::move(state_);
  if (state == nullptr) {
    return {};
  }
  auto pieces = std::make_shared<ReplyStream::State>(state->loop);
  pieces->connection = state->connection;
  on_connection(std::move(state),
                [response = std::move(response), pieces](ServerConnection& connection) mutable {
                  connection.answer_in_pieces(std::move(response), pieces);
                });
  return ReplyStream(pieces);
}

std::string Reply::recycled() {
  return state_ != nullptr && state_->loop.here() ? state_->connection->recycled() : std::string();
}

ReplyStream& ReplyStream::operator=(ReplyStream&& other) noexcept {
  if (this != &other) {
    const ReplyStream ended(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

ReplyStream::~ReplyStream() {
  if (state_ != nullptr) {
    on_connection(state_, [](ServerConnection& connection) { connection.end_pieces(/*complete=*/false); });
  }
}

bool ReplyStream::write(std::string_view piece) {
  if (!open()) {
    return false;
  }
  if (piece.empty()) {
    return true;  // an empty chunk would end the answer
  }
  state_->backlog += piece.size();
  on_connection(state_,
                [text = std::string(piece)](ServerConnection& connection) { connection.write_piece(text); });
  return true;
}

void ReplyStream::end() {
  if (state_ != nullptr) {
    on_connection(state_, [](ServerConnection& connection) { connection.end_pieces(/*complete=*/true); });
    state_.reset();
  }
}

bool ReplyStream::open() const {
  return state_ != nullptr && state_->open && !state_->connection.expired();
}

std::size_t ReplyStream::backlog() const {
  return state_ == nullptr ? 0 : state_->backlog.load();
}

Server::Core::Core(EventLoop& owner, ServerOptions settings, Handler what,
                   std::optional<RotatingTls> material)
    : loop(owner),
      options(std::move(settings)),
      handler(std::move(what)),
      tls(std::move(material)),
      acceptor(owner.core().io.get_executor()),
      drain_watchdog(owner.core().deadlines, [this] { close_all(); }) {}

Status Server::Core::listen() {
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

Task<void> Server::Core::accept() {
  const std::shared_ptr<Core> alive = shared_from_this();
  while (acceptor.is_open()) {
    Socket socket(executor());
    const auto [error] = co_await acceptor.async_accept(socket, kAwait);
    if (!acceptor.is_open()) {
      break;
    }
    if (!error) {
      welcome(std::move(socket));
    } else {
      // Out of descriptors or memory, mostly: the peer still waits, and asking again at once would be all we
      // do.
      SteadyTimer pause(executor(), kAcceptPause);
      co_await pause.async_wait(kAwait);
    }
  }
}

void Server::Core::welcome(Socket socket) {
  ++counters.accepted;
  if (connections.size() >= options.max_connections) {
    std::shared_ptr<ServerConnection> oldest;
    for (const auto& connection : connections) {
      if (connection->idle() && (oldest == nullptr || connection->idle_since() < oldest->idle_since())) {
        oldest = connection;
      }
    }
    if (oldest == nullptr) {
      ++counters.refused_full;
      constexpr std::string_view full =
          "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
      error_code ignored;
      ignored = socket.non_blocking(true, ignored);
      if (!tls) {
        socket.send(asio::const_buffer(full.data(), full.size()), 0, ignored);
      }
      end_sending_quietly(socket);
      return;
    }
    oldest->close();
    gone(oldest);
  }
  auto connection = std::make_shared<ServerConnection>(shared_from_this(), std::move(socket));
  connections.insert(connection);
  counters.connections = connections.size();
  asio::co_spawn(executor(), connection->serve(), rethrow);
}

void Server::Core::gone(const std::shared_ptr<ServerConnection>& connection) {
  connections.erase(connection);
  counters.connections = connections.size();
  if (draining && connections.empty() && drained) {
    drain_watchdog.off();
    const std::function<void()> done = std::exchange(drained, nullptr);
    done();
  }
}

void Server::Core::close_all() {
  close_quietly(acceptor);
  // Each leaves the set by itself when its coroutine ends.
  for (const auto& connection : connections) {
    connection->close();
  }
}

json::PaddedBuffer Server::Core::take_body() {
  if (spare_bodies.empty()) {
    return {};
  }
  json::PaddedBuffer body = std::move(spare_bodies.back());
  spare_bodies.pop_back();
  return body;
}

void Server::Core::give_body(json::PaddedBuffer body) {
  body.clear_and_trim(kSpareBodyBytes);
  if (body.capacity() > 0 && spare_bodies.size() < kSpareBodies) {
    spare_bodies.push_back(std::move(body));
  }
}

std::string_view Server::Core::date_field() {
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
  auto core = std::make_shared<Core>(loop, std::move(options), std::move(handler), std::move(tls));
  TRY(core->listen());
  loop.post([core] { asio::co_spawn(core->executor(), core->accept(), rethrow); });
  return Server(std::move(core));
}

Server::~Server() {
  if (core_ == nullptr) {
    return;
  }
  core_->loop.call([this] {
    core_->handler = nullptr;
    core_->drained = nullptr;
    core_->drain_watchdog.off();
    core_->options.on_access = nullptr;
    core_->close_all();
    // They hold the core, too: should the loop never run again, nobody else would part the two.
    core_->connections.clear();
  });
}

std::uint16_t Server::port() const {
  return core_->port;
}

ServerStats Server::stats() const {
  const Core::Counters& now = core_->counters;
  return {.connections = now.connections,
          .in_flight = now.in_flight,
          .accepted = now.accepted,
          .refused_full = now.refused_full,
          .bad_requests = now.bad_requests,
          .timeouts = now.timeouts,
          .tls_failures = now.tls_failures};
}

void Server::drain(std::chrono::milliseconds deadline, std::function<void()> done) {
  core_->loop.post([core = core_, deadline, done = std::move(done)] {
    core->draining = true;
    core->drained = done;
    close_quietly(core->acceptor);
    const auto connections = core->connections;  // drain() may take one out
    for (const auto& connection : connections) {
      connection->drain();
    }
    core->drain_watchdog.in(deadline);
    if (core->connections.empty() && core->drained) {
      std::exchange(core->drained, nullptr)();
    }
  });
}

}  // namespace tessera::http
