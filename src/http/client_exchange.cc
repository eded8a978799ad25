// How a client carries out one request.
#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/strings.h"
#include "http/client_core.h"

namespace tessera::http {
namespace {

// What one read may take: several TLS records, and the whole of most answers.
constexpr std::size_t kReadBytes = 64U << 10U;
// A body with a known length gets its memory in steps of at least this.
constexpr std::size_t kBodyStep = 1U << 20U;

// Where body pieces go: into the response, or to the caller's sink.
class AnswerBody final : public BodySink {
 public:
  explicit AnswerBody(Call::State& call) : call_(call) {}

  bool on_body(std::string_view piece) override {
    if (call_.streaming) {
      // The piece lies in the connection's padded buffer.
      if (!call_.forgotten && !call_.interrupted && call_.sink.on_data &&
          call_.sink.on_data(json::PaddedView::vouched(piece.data(), piece.size())) == Flow::kPause) {
        call_.paused = true;
      }
      return !call_.paused;
    }
    json::PaddedBuffer& body = call_.response.body;
    if (piece.data() == body.text().data() + body.size() && body.capacity() > body.size()) {
      body.commit(piece.size());  // it was read into its place
    } else {
      body.append(piece);
    }
    return true;
  }

 private:
  Call::State& call_;
};

// Since when a connection that was given up for its silence had been silent; nothing when it ended otherwise.
// `began`: when the request went out on it.
std::optional<SteadyTime> silent_since(const Call::State& call, SteadyTime began) {
  const SteadyTime now = std::chrono::steady_clock::now();
  const bool late = call.interrupted && call.interrupted->code() != ErrorCode::kCancelled;
  if (!call.answered) {
    return late || call.cut_off ? std::optional(began) : std::nullopt;
  }
  if (call.cut_off) {
    return now - kDeadAfter;
  }
  return late && now < call.whole_at ? std::optional(now - call.stage_limit) : std::nullopt;
}

// The second try of a request that was sent before: that this one did not reach the server says nothing.
Error unsure(Error error) {
  if (error.code() != ErrorCode::kUnavailable && error.code() != ErrorCode::kDenied) {
    return error;
  }
  return {ErrorCode::kTimeout,
          error.text() + "; it was sent before, and whether it was carried out is not known"};
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Reads one answer from a connection.
class AnswerReader {
 public:
  AnswerReader(Call::State& call, ClientConnection& connection)
      : call_(call), connection_(connection), reader_(connection.reader), body_(call) {
    reader_.set_body_limit(limit(call));
    reader_.start(head_only());
    call_.response.body = std::move(call_.request.buffer);
    call_.response.body.clear();
  }

  Task<Status> read() {
    call_.allow(call_.timeouts.first_byte, "waiting for the answer to begin");
    while (!reader_.done()) {
      const std::span<char> room = prepare();
      const Io got = co_await connection_.stream.read_some(room);
      if (call_.interrupted) {
        co_return fail(*call_.interrupted);
      }
      if (got.error) {
        call_.cut_off = got.error == asio::error::timed_out;
        co_return got.error == asio::error::eof
            ? ended()
            : Status(fail(call_.broken("the connection broke: " + got.error.message())));
      }
      call_.answered = true;
      if (Status status = digest(room.first(got.bytes)); !status) {
        co_return status;
      }
      if (!reader_.done()) {
        call_.allow(call_.timeouts.idle, "waiting for the rest of the answer");
      }
      while (call_.paused) {
        co_await wait_for_resume();
        if (call_.interrupted) {
          co_return fail(*call_.interrupted);
        }
        if (Status status = work_off(); !status) {
          co_return status;
        }
      }
    }
    co_return Status{};
  }

  [[nodiscard]] bool reusable() const { return reader_.head().keep_alive && connection_.in.empty(); }

 private:
  static std::uint64_t limit(const Call::State& call) {
    return call.streaming ? std::numeric_limits<std::uint64_t>::max() : call.request.max_response_bytes;
  }
  [[nodiscard]] bool head_only() const { return call_.request.method == "HEAD"; }

  // Where the next bytes go: a body of known length straight into its place.
  std::span<char> prepare() {
    const std::uint64_t remaining = call_.streaming ? 0 : reader_.remaining();
    direct_ = remaining > 0 && connection_.in.empty();
    if (!direct_) {
      return connection_.in.prepare(kReadBytes);
    }
    const std::span<char> room =
        call_.response.body.prepare(static_cast<std::size_t>(std::min<std::uint64_t>(remaining, kBodyStep)));
    return room.first(static_cast<std::size_t>(std::min<std::uint64_t>(remaining, room.size())));
  }

  Status digest(std::span<char> fresh) {
    if (direct_) {
      const auto used = reader_.feed({fresh.data(), fresh.size()}, body_);
      return used ? Status{} : refused(used.error());
    }
    connection_.in.commit(fresh.size());
    return work_off();
  }

  // Works through what has been read, up to the end or a pause.
  Status work_off() {
    json::PaddedBuffer& in = connection_.in;
    std::size_t offset = 0;
    while (offset < in.size() && !reader_.done() && !call_.paused) {
      const bool had_head = reader_.head_done();
      const auto used = reader_.feed(in.text().substr(offset), body_);
      if (!used) {
        return refused(used.error());
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
      reader_.start(head_only());  // the real answer is still to come
      return {};
    }
    if (is_redirect(head.status)) {
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("the server answered {} to {} {} with a redirect to {}, which is not followed; use the "
                      "right URL",
                      head.status, call_.request.method, call_.request.target,
                      in_quotes(head.headers.find("Location"))));
    }
    call_.response.status = head.status;
    call_.response.reason = head.reason;
    call_.response.headers = head.headers;
    if (call_.streaming && call_.sink.on_head && !call_.forgotten &&
        call_.sink.on_head(call_.response) == Flow::kPause) {
      call_.paused = true;
    }
    return {};
  }

  Task<void> wait_for_resume() {
    call_.allow(std::chrono::milliseconds(0), "paused by its reader", {});
    while (call_.paused && !call_.interrupted) {
      call_.gate.expires_at(SteadyTime::max());
      co_await call_.gate.async_wait(kAwait);
    }
    call_.allow(call_.timeouts.idle, "waiting for the rest of the answer");
  }

  Status ended() {
    if (reader_.started() && reader_.end()) {
      return {};
    }
    return fail(call_.broken(call_.answered ? "the server closed the connection in the middle of its answer"
                                            : "the server closed the connection without an answer"));
  }

  [[nodiscard]] Status refused(const MessageFault& fault) const {
    if (fault.status == 413) {
      return fail(ErrorCode::kExhausted, "the answer is too large: " + fault.text);
    }
    return fail(ErrorCode::kInvalid, "the answer cannot be read: " + fault.text);
  }

  Call::State& call_;
  ClientConnection& connection_;
  MessageReader& reader_;
  AnswerBody body_;
  bool direct_ = false;
};

}  // namespace

Task<Status> Client::Core::wait_for_turn(Call::State& call) {
  call.allow(std::chrono::milliseconds(0), "waiting for a free connection", {});
  while (all_in_use() && !call.interrupted) {
    call.gate.expires_at(SteadyTime::max());
    waiting.push_back(&call.gate);
    co_await call.gate.async_wait(kAwait);
    const bool our_turn = std::erase(waiting, &call.gate) == 0;
    promised -= our_turn ? 1 : 0;
    if (our_turn && call.interrupted) {
      wake_one();
    }
  }
  if (call.interrupted) {
    co_return fail(*call.interrupted);
  }
  co_return Status{};
}

Task<Status> Client::Core::exchange(Call::State& call, ClientConnection& connection, SteadyTime began,
                                    bool& reusable) {
  const Result<std::string> head = request_head(call.request);
  call.sent = call.answered = call.cut_off = false;
  call.abort = [&connection] { connection.stream.abort(); };
  call.allow(call.timeouts.first_byte, "sending the request", began);
  // A process that was stopped until now must not write what was meant for a time that is over.
  if (!head || began >= call.whole_at) {
    co_return fail(head ? call.late() : head.error());
  }
  const Io written = co_await connection.stream.write(*head, call.request.body);
  call.sent = !written.error;
  if (call.interrupted) {
    // It may have come to an end in the moment in which its time was up.
    const bool unsure = call.sent && call.interrupted->code() == ErrorCode::kUnavailable;
    co_return fail(unsure ? call.broken(call.interrupted->text()) : *call.interrupted);
  }
  if (written.error) {
    call.cut_off = written.error == asio::error::timed_out;
    co_return fail(call.broken("the connection broke: " + written.error.message()));
  }
  if (call.streaming && !call.handed_out) {
    // All went out without a wait, and the answer may be there: its pieces come after stream() has returned.
    co_await asio::post(executor(), kAwait);
  }
  AnswerReader answer(call, connection);
  Status status = co_await answer.read();
  reusable = status.has_value() && answer.reusable();
  co_return status;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the frame has to own them
Task<void> Client::Core::carry_out(std::shared_ptr<Core> self, std::shared_ptr<Call::State> call) {
  static_cast<void>(self);
  Status status;
  for (bool fresh = false;; fresh = true) {
    status = {};
    if (all_in_use() || call->interrupted) {
      status = co_await wait_for_turn(*call);
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
      auto made = co_await connect(call);
      call->abort = nullptr;
      if (!made) {
        drop(nullptr);
        status = fail(std::move(made).error());
        break;
      }
      connection = *std::move(made);
      began = std::chrono::steady_clock::now();
    }
    bool reusable = false;
    status = co_await exchange(*call, *connection, began, reusable);
    call->abort = nullptr;
    if (reusable) {
      give_back(std::move(connection));
    } else {
      drop(std::move(connection));
    }
    if (const auto since = status ? std::nullopt : silent_since(*call, began)) {
      // A path that died takes all its connections along: the next request must not find out once more.
      close_idle(*since);
    }
    const bool stale = !status && reused && !call->answered && !call->interrupted;
    if (!stale || (call->sent && !call->repeatable)) {
      break;
    }
    call->sent_before = call->sent;
  }
  if (!status && call->sent_before && !call->safe) {
    status = fail(unsure(std::move(status).error()));
  }
  if (!status && status.error().code() != ErrorCode::kCancelled) {
    status = fail(std::move(status).error().context(
        fmt::format("{} {}{}", call->request.method, url.origin(), call->request.target)));
  }
  if (!call->handed_out) {
    co_await asio::post(executor(), kAwait);  // it ended before the first wait
  }
  call->finish(std::move(status));
}

}  // namespace tessera::http
