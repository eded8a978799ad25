// Sending one request and reading its response.
#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/strings.h"
#include "http/client_impl.h"

namespace tessera::http {
namespace {

// Size of one read: several TLS records, and enough for most responses.
constexpr std::size_t kReadBytes = 64U << 10U;
// Memory for a body of known length grows in steps of at least this size.
constexpr std::size_t kBodyStep = 1U << 20U;

// Returns the target for an error message. The query of a long target is cut off.
std::string_view target_text(std::string_view target) {
  constexpr std::size_t kLongest = 200;
  return target.size() > kLongest ? target.substr(0, std::min(target.find('?'), kLongest)) : target;
}

// Passes body pieces to the response or to the caller's sink.
class ResponseBody final : public BodySink {
 public:
  explicit ResponseBody(Call::Impl& call) : call_(call) {}

  bool on_body(std::string_view piece) override {
    if (call_.streaming) {
      // The piece is in the connection's padded buffer.
      if (!call_.abandoned && !call_.interrupted && call_.sink.on_data &&
          call_.sink.on_data(json::PaddedView::vouched(piece.data(), piece.size())) == Flow::kPause) {
        call_.paused = true;
      }
      return !call_.paused;
    }
    json::PaddedBuffer& body = call_.response.body;
    if (call_.request.cut_response) {
      piece = piece.substr(0, call_.request.max_response_bytes - body.size());
    }
    if (piece.data() == body.text().data() + body.size() && body.capacity() > body.size()) {
      body.commit(piece.size());  // it was read directly into the body
    } else {
      body.append(piece);
    }
    return true;
  }

 private:
  Call::Impl& call_;
};

// If the connection was dropped because the server was silent, returns the start of the silence.
// `began` is when the request was sent on it.
std::optional<SteadyTime> silent_since(const Call::Impl& call, SteadyTime began) {
  const SteadyTime now = std::chrono::steady_clock::now();
  const bool timed_out = call.interrupted && call.interrupted->code() != ErrorCode::kCancelled;
  if (!call.response_started) {
    return timed_out || call.kernel_gave_up ? std::optional(began) : std::nullopt;
  }
  if (call.kernel_gave_up) {
    return now - kDeadAfter;
  }
  return timed_out && now < call.whole_at ? std::optional(now - call.stage_limit) : std::nullopt;
}

// Corrects the error of a retry: the first attempt was sent, so the server may have processed the
// request even if the retry did not reach it.
Error outcome_unknown(Error error) {
  if (error.code() != ErrorCode::kUnavailable && error.code() != ErrorCode::kDenied) {
    return error;
  }
  return {ErrorCode::kTimeout,
          error.text() + "; an earlier attempt was sent, and whether the server processed it is unknown"};
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Reads one response from a connection.
class ResponseReader {
 public:
  ResponseReader(Call::Impl& call, ClientConnection& connection)
      : call_(call), connection_(connection), reader_(connection.reader), body_(call) {
    reader_.set_body_limit(limit(call));
    reader_.start(head_only());
    call_.response.body = std::move(call_.request.buffer);
    call_.response.body.clear();
  }

  Task<Status> read() {
    call_.start_stage(call_.timeouts.first_byte, "waiting for the response to begin");
    while (!reader_.done()) {
      const std::span<char> room = prepare();
      const Io got = co_await connection_.stream.read_some(room);
      if (call_.interrupted) {
        co_return fail(*call_.interrupted);
      }
      if (got.error) {
        call_.kernel_gave_up = got.error == asio::error::timed_out;
        co_return got.error == asio::error::eof
            ? on_end_of_stream()
            : Status(fail(call_.connection_error("the connection broke: " + got.error.message())));
      }
      call_.response_started = true;
      if (Status status = consume(room.first(got.bytes)); !status) {
        co_return status;
      }
      if (!reader_.done()) {
        call_.start_stage(call_.timeouts.idle, "waiting for the rest of the response");
      }
      while (call_.paused) {
        co_await wait_for_resume();
        if (call_.interrupted) {
          co_return fail(*call_.interrupted);
        }
        if (Status status = parse_buffered(); !status) {
          co_return status;
        }
      }
    }
    co_return Status{};
  }

  [[nodiscard]] bool reusable() const { return reader_.head().keep_alive && connection_.in.empty(); }

 private:
  static std::uint64_t limit(const Call::Impl& call) {
    return call.streaming || call.request.cut_response ? std::numeric_limits<std::uint64_t>::max()
                                                       : call.request.max_response_bytes;
  }
  [[nodiscard]] bool head_only() const { return call_.request.method == "HEAD"; }

  // Returns the memory for the next read. A body of known length is read directly into the
  // response.
  std::span<char> prepare() {
    const std::uint64_t remaining = call_.streaming ? 0 : reader_.remaining();
    direct_ = remaining > 0 && connection_.in.empty() && !call_.request.cut_response;
    if (!direct_) {
      return connection_.in.prepare(kReadBytes);
    }
    const std::span<char> room =
        call_.response.body.prepare(static_cast<std::size_t>(std::min<std::uint64_t>(remaining, kBodyStep)));
    return room.first(static_cast<std::size_t>(std::min<std::uint64_t>(remaining, room.size())));
  }

  Status consume(std::span<char> fresh) {
    if (direct_) {
      const auto used = reader_.feed({fresh.data(), fresh.size()}, body_);
      return used ? Status{} : parse_error(used.error());
    }
    connection_.in.commit(fresh.size());
    return parse_buffered();
  }

  // Parses the buffered bytes, up to the end of the response or a pause.
  Status parse_buffered() {
    json::PaddedBuffer& in = connection_.in;
    std::size_t offset = 0;
    while (offset < in.size() && !reader_.done() && !call_.paused) {
      const bool had_head = reader_.head_done();
      const auto used = reader_.feed(in.text().substr(offset), body_);
      if (!used) {
        return parse_error(used.error());
      }
      offset += *used;
      if (call_.interrupted) {
        return fail(*call_.interrupted);
      }
      if (!had_head && reader_.head_done()) {
        TRY(on_head());
      } else if (*used == 0) {
        break;
      }
    }
    in.consume(offset);
    return {};
  }

  Status on_head() {
    const MessageHead& head = reader_.head();
    if (head.status / 100 == 1 && head.status != 101) {
      reader_.start(head_only());  // the final response follows
      return {};
    }
    if (is_redirect(head.status)) {
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("the server responded {} to {} {} with a redirect to {}, which is not followed; use "
                      "the final URL",
                      head.status, call_.request.method, target_text(call_.request.target),
                      in_quotes(head.headers.find("Location"))));
    }
    call_.response.status = head.status;
    call_.response.reason = head.reason;
    call_.response.headers = head.headers;
    if (call_.streaming && call_.sink.on_head && !call_.abandoned &&
        call_.sink.on_head(call_.response) == Flow::kPause) {
      call_.paused = true;
    }
    return {};
  }

  Task<void> wait_for_resume() {
    call_.start_stage(std::chrono::milliseconds(0), "paused by the caller", {});
    while (call_.paused && !call_.interrupted) {
      call_.gate.expires_at(SteadyTime::max());
      co_await call_.gate.async_wait(kAwait);
    }
    call_.start_stage(call_.timeouts.idle, "waiting for the rest of the response");
  }

  Status on_end_of_stream() {
    if (reader_.started() && reader_.end()) {
      return {};
    }
    return fail(call_.connection_error(call_.response_started
                                           ? "the server closed the connection in the middle of its response"
                                           : "the server closed the connection without a response"));
  }

  [[nodiscard]] Status parse_error(const MessageFault& fault) const {
    if (fault.status == 413) {
      return fail(ErrorCode::kExhausted, "the response is too large: " + fault.text);
    }
    return fail(ErrorCode::kInvalid, "the response cannot be parsed: " + fault.text);
  }

  Call::Impl& call_;
  ClientConnection& connection_;
  MessageReader& reader_;
  ResponseBody body_;
  bool direct_ = false;
};

}  // namespace

Task<Status> Client::Impl::wait_for_connection(Call::Impl& call) {
  call.start_stage(std::chrono::milliseconds(0), "waiting for a free connection", {});
  while (all_in_use() && !call.interrupted) {
    call.gate.expires_at(SteadyTime::max());
    waiting.push_back(&call.gate);
    co_await call.gate.async_wait(kAwait);
    const bool our_turn = std::erase(waiting, &call.gate) == 0;
    reserved -= our_turn ? 1 : 0;
    if (our_turn && call.interrupted) {
      wake_one();
    }
  }
  if (call.interrupted) {
    co_return fail(*call.interrupted);
  }
  co_return Status{};
}

Task<Status> Client::Impl::exchange(Call::Impl& call, ClientConnection& connection, SteadyTime began,
                                    bool& reusable) {
  const Result<std::string> head = request_head(call.request);
  call.sent = call.response_started = call.kernel_gave_up = false;
  call.abort = [&connection] { connection.stream.abort(); };
  call.start_stage(call.timeouts.first_byte, "sending the request", began);
  // If the process was suspended until the timeout expired, the request must not be sent any more.
  if (!head || began >= call.whole_at) {
    co_return fail(head ? call.timeout_error() : head.error());
  }
  const Io written = co_await connection.stream.write(*head, call.request.body);
  call.sent = !written.error;
  if (call.interrupted) {
    // The write may have completed at the moment the timeout expired.
    const bool was_sent = call.sent && call.interrupted->code() == ErrorCode::kUnavailable;
    co_return fail(was_sent ? call.connection_error(call.interrupted->text()) : *call.interrupted);
  }
  if (written.error) {
    call.kernel_gave_up = written.error == asio::error::timed_out;
    co_return fail(call.connection_error("the connection broke: " + written.error.message()));
  }
  if (call.streaming && !call.may_call_back) {
    // The request was sent without a wait, and the response may have arrived already: deliver it
    // only after stream() has returned.
    co_await asio::post(executor(), kAwait);
  }
  ResponseReader response(call, connection);
  Status status = co_await response.read();
  reusable = status.has_value() && response.reusable();
  co_return status;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the coroutine frame has to own them
Task<void> Client::Impl::run_request(std::shared_ptr<Impl> self, std::shared_ptr<Call::Impl> call) {
  static_cast<void>(self);
  Status status;
  for (bool fresh = false;; fresh = true) {
    status = {};
    if (all_in_use() || call->interrupted) {
      status = co_await wait_for_connection(*call);
    }
    if (!status) {
      break;
    }
    SteadyTime began = std::chrono::steady_clock::now();
    std::unique_ptr<ClientConnection> connection = fresh ? nullptr : take_idle();
    const bool reused = connection != nullptr;
    if (!reused) {
      if (open >= options.max_connections && !idle.empty()) {
        drop(std::move(idle.front()));
        idle.pop_front();
      }
      ++open;
      auto connected = co_await connect(call);
      call->abort = nullptr;
      if (!connected) {
        drop(nullptr);
        status = fail(std::move(connected).error());
        break;
      }
      connection = *std::move(connected);
      began = std::chrono::steady_clock::now();
    }
    bool reusable = false;
    status = co_await exchange(*call, *connection, began, reusable);
    call->abort = nullptr;
    if (reusable) {
      return_to_pool(std::move(connection));
    } else {
      drop(std::move(connection));
    }
    if (const auto since = status ? std::nullopt : silent_since(*call, began)) {
      // If the network path died, all its connections are dead: the next request must not time out
      // again.
      close_idle(*since);
    }
    const bool stale = !status && reused && !call->response_started && !call->interrupted;
    if (!stale || (call->sent && !call->repeatable)) {
      break;
    }
    call->sent_on_stale_connection = call->sent;
  }
  if (!status && call->sent_on_stale_connection && !call->safe) {
    status = fail(outcome_unknown(std::move(status).error()));
  }
  if (!status && status.error().code() != ErrorCode::kCancelled) {
    status = fail(std::move(status).error().context(
        fmt::format("{} {}{}", call->request.method, url.origin(), target_text(call->request.target))));
  }
  if (!call->may_call_back) {
    co_await asio::post(executor(), kAwait);  // the request finished without a wait, inside send()
  }
  call->finish(std::move(status));
}

}  // namespace tessera::http
