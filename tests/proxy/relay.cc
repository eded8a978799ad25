#include "relay.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

namespace tessera::proxy {
namespace {

constexpr http::MessageLimits kLimits{.head_bytes = 64U << 10U, .body_bytes = 1ULL << 40U};

class Collected final : public http::BodySink {
 public:
  explicit Collected(std::string& text) : text_(text) {}
  bool on_body(std::string_view piece) override {
    text_.append(piece);
    return true;
  }

 private:
  std::string& text_;
};

bool is_hop_by_hop(std::string_view name) {
  for (const std::string_view own :
       {"Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Host"}) {
    if (http::equals_ignoring_case(name, own)) {
      return true;
    }
  }
  return false;
}

void append_fields(std::string& out, const http::Headers& headers) {
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (!is_hop_by_hop(headers.name(i))) {
      out += fmt::format("{}: {}\r\n", headers.name(i), headers.value(i));
    }
  }
}

std::string_view reason_of(int status) {
  switch (status) {
    case 403:
      return "Forbidden";
    case 404:
      return "NotFound";
    case 409:
      return "Conflict";
    case 410:
      return "Expired";
    case 429:
      return "TooManyRequests";
    case 503:
      return "ServiceUnavailable";
    default:
      return "InternalError";
  }
}

// Returns a failure in the format of the API server.
std::string status_object(int status) {
  return fmt::format(
      R"({{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"injected by the fault proxy",)"
      R"("reason":"{}","code":{}}})",
      reason_of(status), status);
}

}  // namespace

Relay::Relay(RelayHost& host, Fd client)
    : host_(host),
      client_(std::make_unique<PipeEnd>(std::move(client))),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      requests_(http::MessageKind::kRequest, kLimits) {}

void Relay::run() {
  if (host_.client_tls == nullptr || client_->accept_tls(host_.client_tls.get())) {
    while (!cut_ && serve_one()) {
    }
  }
  const std::scoped_lock lock(mutex_);
  client_.reset();
  upstream_.reset();
  finished_ = true;
}

void Relay::poke() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void Relay::cut(bool reset) {
  if (!cut_.exchange(true)) {
    const std::scoped_lock lock(mutex_);
    if (client_ != nullptr) {
      client_->cut(reset);
    }
    if (upstream_ != nullptr) {
      upstream_->cut(false);
    }
  }
  poke();
}

bool Relay::wait(bool for_upstream, bool for_client, int timeout_ms, Ready& ready) {
  if (for_upstream && upstream_->has_pending()) {
    ready = Ready::kUpstream;
    return !cut_;
  }
  std::array<pollfd, 3> fds{{{wake_.get(), POLLIN, 0},
                             {for_upstream ? upstream_->fd() : -1, POLLIN, 0},
                             {for_client ? client_->fd() : -1, POLLIN, 0}}};
  const int count = ::poll(fds.data(), fds.size(), timeout_ms);
  if (fds[0].revents != 0) {
    std::uint64_t pokes = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &pokes, sizeof pokes);
    ready = Ready::kPoked;
  } else if (count == 0) {
    ready = Ready::kTime;
  } else {
    ready = fds[2].revents != 0 ? Ready::kClient : Ready::kUpstream;
  }
  return !cut_;
}

bool Relay::wait_while_frozen() {
  Ready ready{};
  while (host_.frozen()) {
    if (!wait(false, false, -1, ready)) {
      return false;
    }
  }
  return !cut_;
}

bool Relay::stall() {
  const std::uint64_t since = host_.cleared();
  Ready ready{};
  while (host_.cleared() == since) {
    if (!wait(false, true, -1, ready) || ready == Ready::kClient) {
      return false;  // cut, or the client closed the connection
    }
  }
  return true;
}

bool Relay::hang_up(const Exchange& exchange) {
  cut(exchange.fault && exchange.fault->reset);
  return false;
}

bool Relay::read_request(Exchange& exchange, std::string& head) {
  requests_.start();
  Collected body(exchange.body);
  while (!requests_.done()) {
    const bool had_head = requests_.head_done();
    const auto used = requests_.feed(in_, body);
    if (!used) {
      return false;
    }
    in_.erase(0, *used);
    if (*used == 0 && had_head == requests_.head_done() && (!client_->read(in_) || !wait_while_frozen())) {
      return false;
    }
  }
  exchange.method = requests_.head().method;
  exchange.target = requests_.head().target;
  exchange.lines = exchange.target.find("watch=true") != std::string::npos ||
                   exchange.target.find("watch=1") != std::string::npos;
  head = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", exchange.method, exchange.target,
                     host_.upstream.host_field());
  append_fields(head, requests_.head().headers);
  if (!exchange.body.empty() || requests_.head().content_length) {
    head += fmt::format("Content-Length: {}\r\n", exchange.body.size());
  }
  head += "\r\n";
  return true;
}

bool Relay::serve_one() {
  Exchange exchange;
  std::string head;
  if (!read_request(exchange, head)) {
    return false;
  }
  exchange.fault = host_.fault_for(exchange.method, exchange.target);
  const bool faulty = exchange.fault.has_value();
  bool forwarded = false;
  if (faulty && exchange.fault->kind == FaultKind::kAnswer) {
    exchange.status = exchange.fault->status;
    host_.record(exchange.method, exchange.target, exchange.status, true);
    return respond(exchange);
  }
  if (faulty && exchange.fault->kind == FaultKind::kDelay) {
    const auto until = std::chrono::steady_clock::now() + exchange.fault->delay;
    Ready ready{};
    do {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      if (left.count() <= 0) {
        break;
      }
      if (!wait(false, true, static_cast<int>(left.count()), ready)) {
        return false;
      }
    } while (ready == Ready::kPoked);
    forwarded = ready != Ready::kClient;
  } else {
    forwarded = !(faulty && exchange.fault->kind == FaultKind::kCut);
  }
  forwarded = forwarded && wait_while_frozen() && connect_upstream() &&
              upstream_->write(head + exchange.body) && relay_response(exchange);
  host_.record(exchange.method, exchange.target, exchange.status, faulty);
  return forwarded || hang_up(exchange);
}

bool Relay::respond(const Exchange& exchange) {
  const Fault& fault = *exchange.fault;
  const std::string body = fault.body.empty() ? status_object(fault.status) : fault.body;
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
                                 fault.status, reason_of(fault.status), body.size());
  for (const auto& [name, value] : fault.headers) {
    text += fmt::format("{}: {}\r\n", name, value);
  }
  return client_->write(text + "\r\n" + body);
}

bool Relay::connect_upstream() {
  if (upstream_ != nullptr && !ended_early_) {
    pollfd idle{upstream_->fd(), POLLIN, 0};
    if (!upstream_->has_pending() && ::poll(&idle, 1, 0) == 0) {
      return true;
    }
  }
  auto fresh = PipeEnd::connect(host_.upstream.host, host_.upstream.port);
  if (!fresh || (host_.upstream_tls != nullptr &&
                 !(*fresh)->start_tls(host_.upstream_tls.get(), host_.upstream.host))) {
    return false;
  }
  const std::scoped_lock lock(mutex_);
  upstream_ = *std::move(fresh);
  ended_early_ = false;
  return !cut_;
}

bool Relay::relay_response(Exchange& exchange) {
  http::MessageReader reader(http::MessageKind::kResponse, kLimits);
  const bool head_only = exchange.method == "HEAD";
  reader.start(head_only);
  const bool lose = exchange.fault && exchange.fault->kind == FaultKind::kLoseAnswer;
  std::string in;
  std::string held;  // an incomplete line
  std::string piece;
  Collected body(piece);
  ended_early_ = true;
  while (!reader.done()) {
    const bool had_head = reader.head_done();
    piece.clear();
    const auto used = reader.feed(in, body);
    if (!used) {
      return false;
    }
    in.erase(0, *used);
    if (!wait_while_frozen()) {
      return false;
    }
    if (!had_head && reader.head_done()) {
      if (reader.head().status / 100 == 1) {
        reader.start(head_only);
      } else if (!lose && !send_head(exchange, reader.head())) {
        return false;
      }
    }
    if (!piece.empty() && !lose && !send_body(exchange, held, piece)) {
      return false;
    }
    if (*used > 0 || had_head != reader.head_done()) {
      continue;
    }
    Ready ready{};
    if (!wait(true, true, -1, ready) || ready == Ready::kClient) {
      return false;
    }
    if (ready == Ready::kUpstream && !upstream_->read(in) && !(reader.started() && reader.end())) {
      return false;
    }
  }
  ended_early_ = !reader.head().keep_alive;
  if (lose) {
    return false;
  }
  if (!held.empty() && !send_piece(exchange, held)) {
    return false;
  }
  return !exchange.chunked || client_->write("0\r\n\r\n");
}

bool Relay::send_head(Exchange& exchange, const http::MessageHead& head) {
  exchange.status = head.status;
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", head.status, head.reason);
  append_fields(text, head.headers);
  if (head.content_length) {
    text += fmt::format("Content-Length: {}\r\n", *head.content_length);
  } else if (head.status != 204 && head.status != 304 && exchange.method != "HEAD") {
    exchange.chunked = true;
    text += "Transfer-Encoding: chunked\r\n";
  }
  return client_->write(text + "\r\n");
}

bool Relay::send_body(Exchange& exchange, std::string& held, std::string_view piece) {
  if (!exchange.lines) {
    return send_piece(exchange, piece);
  }
  held.append(piece);
  std::size_t start = 0;
  for (std::size_t end = held.find('\n'); end != std::string::npos; end = held.find('\n', start)) {
    if (!send_line(exchange, std::string_view(held).substr(start, end + 1 - start))) {
      return false;
    }
    start = end + 1;
  }
  held.erase(0, start);
  return true;
}

bool Relay::send_line(Exchange& exchange, std::string_view line) {
  if (exchange.fault && exchange.line >= exchange.fault->after_lines) {
    switch (exchange.fault->kind) {
      case FaultKind::kDuplicate:
        if (!send_piece(exchange, line)) {
          return false;
        }
        break;
      case FaultKind::kHalfChunk:
        client_->write(fmt::format("{:x}\r\n", line.size()));
        client_->write(line.substr(0, line.size() / 2));
        return false;
      case FaultKind::kStall:
        if (!stall()) {
          return false;
        }
        exchange.fault.reset();
        break;
      case FaultKind::kEndStream:
        client_->write("0\r\n\r\n");
        return false;
      default:
        break;
    }
  }
  ++exchange.line;
  return send_piece(exchange, line);
}

bool Relay::send_piece(Exchange& exchange, std::string_view piece) {
  const bool truncate = exchange.fault && exchange.fault->kind == FaultKind::kTruncate &&
                        exchange.passed + piece.size() > exchange.fault->after_bytes;
  std::string text = exchange.chunked ? fmt::format("{:x}\r\n", piece.size()) : std::string();
  if (truncate) {
    client_->write(text.append(piece.substr(0, exchange.fault->after_bytes - exchange.passed)));
    return false;
  }
  exchange.passed += piece.size();
  text.append(piece);
  if (exchange.chunked) {
    text += "\r\n";
  }
  return client_->write(text);
}

}  // namespace tessera::proxy
