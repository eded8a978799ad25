// The request loop of one connection of a Server: read a request, call the handler, write the
// response (server_response.cc), repeat.
#include <fmt/core.h>

#include <algorithm>

#include "http/server_impl.h"
#include "json/escape.h"

namespace tessera::http {
namespace {

// Size of the first read of a request: the head, and a small body. Each idle connection needs this
// memory.
constexpr std::size_t kHeadRead = 4U << 10U;
// Memory for a body grows as data arrives, so that a peer cannot reserve memory by announcing a
// large body.
constexpr std::size_t kBodyStep = 256U << 10U;

}  // namespace

ServerConnection::ServerConnection(std::shared_ptr<Server::Impl> server, Socket socket)
    : server_(std::move(server)),
      stream_(std::move(socket)),
      watchdog_(server_->loop.impl().deadlines, [this] { on_timeout(); }),
      reader_(MessageKind::kRequest,
              {.head_bytes = server_->options.max_head_bytes, .body_bytes = server_->options.max_body_bytes}),
      since_(std::chrono::steady_clock::now()),
      gate_(server_->executor()) {
  error_code error;
  const tcp::endpoint peer = stream_.socket().remote_endpoint(error);
  if (!error) {
    address_ = peer.address();
    request_.peer_ = fmt::format("{}:{}", peer.address().to_string(), peer.port());
  }
}

ServerConnection::~ServerConnection() {
  reserve(0);
}

bool ServerConnection::reserve(std::uint64_t bytes) {
  if (bytes > reserved_ && !server_->make_room_for_body(bytes - reserved_, *this)) {
    return false;
  }
  server_->bodies_bytes += bytes - reserved_;
  reserved_ = bytes;
  return true;
}

void ServerConnection::on_timeout() {
  timed_out_ = true;
  server_->counters.timeouts += idle_ ? 0 : 1;
  if (reading_) {
    error_code ignored;
    ignored = stream_.socket().cancel(ignored);  // the connection stays open for the 408 response
  } else {
    close();
  }
}

void ServerConnection::close() {
  if (reply_stream_ != nullptr) {
    reply_stream_->open = false;
  }
  stream_.close();
  gate_.cancel();
  if (!in_handler_) {
    reserve(0);  // the memory is freed soon; a handler may still read it
  }
}

void ServerConnection::drain() {
  if (idle_) {
    close();
  } else if (reply_stream_ != nullptr) {
    reply_stream_->open = false;
    end_stream(/*complete=*/true);
  }
}

Task<void> ServerConnection::serve() {
  const std::shared_ptr<ServerConnection> self = shared_from_this();
  bool more = co_await handshake() && !server_->draining;
  while (more) {
    const Got got = co_await read_request();
    if (got == Got::kNothing || (got == Got::kRequest && !co_await dispatch())) {
      break;
    }
    const bool written = co_await write_response();
    server_->return_body_buffer(std::move(body_));
    reserve(0);
    // The drain may have started while the peer was reading the response.
    more = written && keep_alive_ && !server_->draining;
    if (written && !more) {
      co_await linger();
    }
  }
  close();
  server_->remove(self);
}

// Performs the TLS handshake, if the server uses TLS.
Task<bool> ServerConnection::handshake() {
  if (!server_->tls) {
    co_return true;
  }
  watchdog_.in(server_->options.head_timeout);
  const Status status = co_await stream_.accept_tls(server_->tls->current());
  if (!status) {
    server_->counters.tls_failures += timed_out_ ? 0 : 1;
    co_return false;
  }
  request_.client_name_ = stream_.peer_name();
  co_return true;
}

Task<ServerConnection::Got> ServerConnection::read_request() {
  reader_.start();
  timed_out_ = false;
  in_.clear_and_trim(kHeadRead);
  direct_ = false;
  request_.route_.clear();
  idle_ = true;
  since_ = std::chrono::steady_clock::now();
  watchdog_.set(since_ + server_->options.idle_timeout);
  while (!reader_.done()) {
    const Io got = co_await read_more();
    if (idle_ && !got.error) {
      idle_ = false;
      timed_out_ = false;  // the idle timeout may have expired at the same moment
      head_at_ = since_ = std::chrono::steady_clock::now();
      watchdog_.set(head_at_ + server_->options.head_timeout);
    }
    const Got now = co_await consume(got);
    if (now != Got::kRequest) {
      idle_ = false;
      co_return now;
    }
  }
  watchdog_.off();
  co_return Got::kRequest;
}

Task<Io> ServerConnection::read_more() {
  std::span<char> room;
  if (direct_) {
    room = body_.prepare(static_cast<std::size_t>(next_step()));
    room = room.first(static_cast<std::size_t>(std::min<std::uint64_t>(reader_.remaining(), room.size())));
  } else {
    room = in_.prepare(kHeadRead);
  }
  reading_ = true;
  Io got = co_await stream_.read_some(room);
  reading_ = false;
  if (!direct_) {
    in_.commit(got.bytes);
  }
  co_return got;
}

// Parses the bytes of one read. Returns kRequest to continue.
Task<ServerConnection::Got> ServerConnection::consume(Io got) {
  if (timed_out_ && !stream_.closed() && reader_.started()) {
    co_return reject(408, reader_.head_done() ? "the body took too long" : "the head took too long");
  }
  if (got.error) {
    co_return Got::kNothing;  // the peer closed the connection
  }
  if (direct_) {
    const std::string_view all = body_.text();
    const auto used = reader_.feed({all.data() + all.size(), got.bytes}, *this);
    co_return !used       ? reject(used.error().status, used.error().text)
    : reader_.done()      ? Got::kRequest
    : reserve_next_step() ? Got::kRequest
                          : reject_for_memory();
  }
  std::size_t offset = 0;
  while (offset < in_.size() && !reader_.done()) {
    const bool had_head = reader_.head_done();
    const auto used = reader_.feed(in_.text().substr(offset), *this);
    if (!used) {
      co_return reject(used.error().status, used.error().text);
    }
    offset += *used;
    if (!had_head && reader_.head_done()) {
      if (const Got now = co_await on_head(); now != Got::kRequest) {
        co_return now;
      }
    } else if (*used == 0) {
      break;
    }
  }
  in_.consume(offset);
  direct_ = in_.empty() && reader_.remaining() > 0;
  co_return reserve_next_step() ? Got::kRequest : reject_for_memory();
}

// Returns how many bytes of the body to read next.
std::uint64_t ServerConnection::next_step() const {
  return std::min(reader_.remaining(), std::max<std::uint64_t>(kBodyStep, body_.size()));
}

bool ServerConnection::reserve_next_step() {
  const std::uint64_t bytes = direct_ ? body_.size() + next_step() : body_.size();
  return bytes <= reserved_ || reserve(bytes);
}

ServerConnection::Got ServerConnection::reject_for_memory() {
  return reject(503, "out of memory for request bodies; try again later");
}

Task<ServerConnection::Got> ServerConnection::on_head() {
  const MessageHead& head = reader_.head();
  head_at_ = std::chrono::steady_clock::now();
  if (head.version == 11 && !head.headers.has("Host")) {
    co_return reject(400, "HTTP/1.1 requires a Host header");
  }
  if (reader_.done()) {
    co_return Got::kRequest;
  }
  body_ = server_->take_body_buffer();
  watchdog_.set(head_at_ + server_->options.body_timeout);
  if (head.version == 11 && head.headers.has_token("Expect", "100-continue")) {
    const Io written = co_await stream_.write("HTTP/1.1 100 Continue\r\n\r\n");
    if (written.error) {
      co_return Got::kNothing;
    }
  }
  co_return Got::kRequest;
}

bool ServerConnection::on_body(std::string_view piece) {
  const std::string_view have = body_.text();
  if (direct_ && piece.data() == have.data() + have.size()) {
    body_.commit(piece.size());
  } else {
    body_.append(piece);
  }
  return true;
}

ServerConnection::Got ServerConnection::reject(int status, std::string_view text) {
  ++server_->counters.bad_requests;
  response_ = Response{.status = status};
  response_.body = "{\"error\":";
  json::append_quoted(response_.body, text);
  response_.body += "}\n";
  responded_ = true;
  keep_alive_ = false;
  timed_out_ = false;
  return Got::kRejected;
}

// Calls the handler and waits for the response. Returns false if the connection was closed
// meanwhile.
Task<bool> ServerConnection::dispatch() {
  const MessageHead& head = reader_.head();
  request_.method_ = head.method;
  request_.target_ = head.target;
  request_.headers_ = &head.headers;
  request_.body_ = body_.view();
  responded_ = false;
  reply_stream_ = nullptr;
  keep_alive_ = head.keep_alive;
  if (server_->handler == nullptr) {
    co_return false;
  }
  ++server_->counters.in_flight;
  in_handler_ = true;
  server_->handler(request_, Reply(std::make_shared<Reply::Impl>(server_->loop, shared_from_this())));
  while (!responded_ && !stream_.closed()) {
    gate_.expires_at(SteadyTime::max());
    co_await gate_.async_wait(kAwait);
  }
  --server_->counters.in_flight;
  in_handler_ = false;
  established_ = true;
  since_ = std::chrono::steady_clock::now();
  co_return responded_ && !stream_.closed();
}

void ServerConnection::set_response(Response response) {
  response_ = std::move(response);
  responded_ = true;
  gate_.cancel();
}

void ServerConnection::start_stream(Response response, std::shared_ptr<ReplyStream::Impl> stream) {
  reply_stream_ = std::move(stream);
  reply_stream_->backlog += response.body.size();
  pending_ = std::move(response.body);
  reply_stream_ended_ = reply_stream_complete_ = false;
  set_response(std::move(response));
}

void ServerConnection::append_to_stream(std::string_view piece) {
  if (reply_stream_ == nullptr || reply_stream_ended_ || stream_.closed()) {
    return;
  }
  pending_ += piece;
  if (pending_.size() > server_->options.max_stream_backlog) {
    close();
    return;
  }
  gate_.cancel();
}

void ServerConnection::end_stream(bool complete) {
  if (!reply_stream_ended_) {
    reply_stream_ended_ = true;
    reply_stream_complete_ = complete;
    gate_.cancel();
  }
}

std::string ServerConnection::recycled() {
  std::string memory = std::move(spare_);
  memory.clear();
  return memory;
}

}  // namespace tessera::http
