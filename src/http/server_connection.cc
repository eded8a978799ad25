// The life of one connection of a Server: read a request, hand it over, write the answer (server_answer.cc),
// again.
#include <fmt/core.h>

#include <algorithm>

#include "http/server_core.h"
#include "json/escape.h"

namespace tessera::http {
namespace {

// The first read of a request: the head, and the body of a small one. What an idle connection costs.
constexpr std::size_t kHeadRead = 4U << 10U;
// A body gets its memory in steps as it comes, so that a peer cannot claim much by announcing much.
constexpr std::size_t kBodyStep = 256U << 10U;

}  // namespace

ServerConnection::ServerConnection(std::shared_ptr<Server::Core> core, Socket socket)
    : core_(std::move(core)),
      stream_(std::move(socket)),
      watchdog_(core_->loop.core().deadlines, [this] { on_late(); }),
      reader_(MessageKind::kRequest,
              {.head_bytes = core_->options.max_head_bytes, .body_bytes = core_->options.max_body_bytes}),
      gate_(core_->executor()) {
  error_code error;
  const tcp::endpoint peer = stream_.socket().remote_endpoint(error);
  if (!error) {
    request_.peer_ = fmt::format("{}:{}", peer.address().to_string(), peer.port());
  }
}

ServerConnection::~ServerConnection() {
  claim(0);
}

bool ServerConnection::claim(std::uint64_t bytes) {
  const std::uint64_t others = core_->bodies_bytes - claimed_;
  if (bytes > 0 && others + bytes > core_->options.max_bodies_bytes) {
    return false;
  }
  core_->bodies_bytes = others + bytes;
  claimed_ = bytes;
  return true;
}

void ServerConnection::on_late() {
  late_ = true;
  core_->counters.timeouts += idle_ ? 0 : 1;
  if (reading_) {
    error_code ignored;
    ignored = stream_.socket().cancel(ignored);  // the peer can still be told why
  } else {
    close();
  }
}

void ServerConnection::close() {
  if (pieces_state_ != nullptr) {
    pieces_state_->open = false;
  }
  stream_.close();
  gate_.cancel();
}

void ServerConnection::drain() {
  if (idle_) {
    close();
  } else if (pieces_state_ != nullptr) {
    pieces_state_->open = false;
    end_pieces(/*complete=*/true);
  }
}

Task<void> ServerConnection::serve() {
  const std::shared_ptr<ServerConnection> self = shared_from_this();
  bool more = co_await greet() && !core_->draining;
  while (more) {
    const Got got = co_await read_request();
    if (got == Got::kNothing || (got == Got::kRequest && !co_await hand_over())) {
      break;
    }
    const bool written = co_await write_answer();
    core_->give_body(std::move(body_));
    claim(0);
    // The drain may have begun while the peer took its time to read.
    more = written && keep_ && !core_->draining;
    if (written && !more) {
      co_await linger();
    }
  }
  close();
  core_->gone(self);
}

// TLS, if this server speaks it.
Task<bool> ServerConnection::greet() {
  if (!core_->tls) {
    co_return true;
  }
  watchdog_.in(core_->options.head_timeout);
  const Status status = co_await stream_.accept_tls(core_->tls->current());
  if (!status) {
    core_->counters.tls_failures += late_ ? 0 : 1;
    co_return false;
  }
  request_.client_name_ = stream_.peer_name();
  co_return true;
}

Task<ServerConnection::Got> ServerConnection::read_request() {
  reader_.start();
  late_ = false;
  in_.clear_and_trim(kHeadRead);
  direct_ = false;
  request_.route_.clear();
  idle_ = true;
  idle_since_ = std::chrono::steady_clock::now();
  watchdog_.set(idle_since_ + core_->options.idle_timeout);
  while (!reader_.done()) {
    const Io got = co_await read_more();
    if (idle_ && !got.error) {
      idle_ = false;
      late_ = false;  // the idle limit was over in the same moment
      head_at_ = std::chrono::steady_clock::now();
      watchdog_.set(head_at_ + core_->options.head_timeout);
    }
    const Got now = co_await digest(got);
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

// kRequest: go on.
Task<ServerConnection::Got> ServerConnection::digest(Io got) {
  if (late_ && !stream_.closed() && reader_.started()) {
    co_return fault(408, reader_.head_done() ? "the body took too long" : "the head took too long");
  }
  if (got.error) {
    co_return Got::kNothing;  // gone, in good order or not: there is nobody to answer
  }
  if (direct_) {
    const std::string_view all = body_.text();
    const auto used = reader_.feed({all.data() + all.size(), got.bytes}, *this);
    co_return !used     ? fault(used.error().status, used.error().text)
    : reader_.done()    ? Got::kRequest
    : claim_next_step() ? Got::kRequest
                        : too_much();
  }
  std::size_t offset = 0;
  while (offset < in_.size() && !reader_.done()) {
    const bool had_head = reader_.head_done();
    const auto used = reader_.feed(in_.text().substr(offset), *this);
    if (!used) {
      co_return fault(used.error().status, used.error().text);
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
  co_return claim_next_step() ? Got::kRequest : too_much();
}

// How much more of the body is read at once.
std::uint64_t ServerConnection::next_step() const {
  return std::min(reader_.remaining(), std::max<std::uint64_t>(kBodyStep, body_.size()));
}

bool ServerConnection::claim_next_step() {
  const std::uint64_t bytes = direct_ ? body_.size() + next_step() : body_.size();
  return bytes <= claimed_ || claim(bytes);
}

ServerConnection::Got ServerConnection::too_much() {
  return fault(503, "the bodies of all requests together are too large just now; try again later");
}

Task<ServerConnection::Got> ServerConnection::on_head() {
  const MessageHead& head = reader_.head();
  head_at_ = std::chrono::steady_clock::now();
  if (head.version == 11 && !head.headers.has("Host")) {
    co_return fault(400, "HTTP/1.1 wants a Host field");
  }
  if (reader_.done()) {
    co_return Got::kRequest;
  }
  body_ = core_->take_body();
  watchdog_.set(head_at_ + core_->options.body_timeout);
  if (head.version == 11 && head.headers.has_token("Expect", "100-continue")) {
    const Io told = co_await stream_.write("HTTP/1.1 100 Continue\r\n\r\n");
    if (told.error) {
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

ServerConnection::Got ServerConnection::fault(int status, std::string_view text) {
  ++core_->counters.bad_requests;
  response_ = Response{.status = status};
  response_.body = "{\"error\":";
  json::append_quoted(response_.body, text);
  response_.body += "}\n";
  answered_ = true;
  keep_ = false;
  late_ = false;
  return Got::kFault;
}

// Gives the request to the handler and waits for the answer; false when there is nobody left to answer.
Task<bool> ServerConnection::hand_over() {
  const MessageHead& head = reader_.head();
  request_.method_ = head.method;
  request_.target_ = head.target;
  request_.headers_ = &head.headers;
  request_.body_ = body_.view();
  answered_ = false;
  pieces_state_ = nullptr;
  keep_ = head.keep_alive;
  if (core_->handler == nullptr) {
    co_return false;
  }
  ++core_->counters.in_flight;
  core_->handler(request_, Reply(std::make_shared<Reply::State>(core_->loop, shared_from_this())));
  while (!answered_ && !stream_.closed()) {
    gate_.expires_at(SteadyTime::max());
    co_await gate_.async_wait(kAwait);
  }
  --core_->counters.in_flight;
  co_return answered_ && !stream_.closed();
}

void ServerConnection::answer(Response response) {
  response_ = std::move(response);
  answered_ = true;
  gate_.cancel();
}

void ServerConnection::answer_in_pieces(Response response, std::shared_ptr<ReplyStream::State> stream) {
  pieces_state_ = std::move(stream);
  pieces_state_->backlog += response.body.size();
  pieces_ = std::move(response.body);
  pieces_over_ = pieces_complete_ = false;
  answer(std::move(response));
}

void ServerConnection::write_piece(std::string_view piece) {
  if (pieces_state_ == nullptr || pieces_over_ || stream_.closed()) {
    return;
  }
  pieces_ += piece;
  if (pieces_.size() > core_->options.max_stream_backlog) {
    close();
    return;
  }
  gate_.cancel();
}

void ServerConnection::end_pieces(bool complete) {
  if (!pieces_over_) {
    pieces_over_ = true;
    pieces_complete_ = complete;
    gate_.cancel();
  }
}

std::string ServerConnection::recycled() {
  std::string memory = std::move(spare_);
  memory.clear();
  return memory;
}

}  // namespace tessera::http
