#include "http/client.h"

#include <fmt/core.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <future>

#include "http/answer.h"
#include "http/client_core.h"

namespace tessera::http {
namespace {

SteadyTime from_now(std::chrono::milliseconds limit) {
  return limit.count() == 0 ? SteadyTime::max() : std::chrono::steady_clock::now() + limit;
}

bool is_safe(const std::string& method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

}  // namespace

Call::State::State(EventLoop& owner, ClientRequest what, ClientTimeouts limits)
    : loop(owner),
      request(std::move(what)),
      timeouts(limits),
      safe(is_safe(request.method)),
      repeatable(safe || request.may_repeat),
      gate(owner.core().io.get_executor()),
      whole_at(from_now(limits.whole)),
      watchdog(owner.core().deadlines, [this] { interrupt(late()); }) {}

void Call::State::allow(std::chrono::milliseconds limit, const char* what, SteadyTime from) {
  stage = what;
  stage_limit = limit;
  watchdog.set(limit.count() == 0 ? whole_at : std::min(from + limit, whole_at));
}

void Call::State::interrupt(Error error) {
  if (interrupted || over) {
    return;
  }
  interrupted = std::move(error);
  gate.cancel();
  if (abort) {
    abort();
  }
}

Error Call::State::broken(std::string text) const {
  if (sent && !safe) {
    return {ErrorCode::kTimeout,
            std::move(text) + " after the request was sent; whether it was carried out is not known"};
  }
  return {ErrorCode::kUnavailable, std::move(text)};
}

Error Call::State::late() const {
  const bool whole = std::chrono::steady_clock::now() >= whole_at;
  std::string text = whole ? fmt::format("not done within {} ms; it was {}", timeouts.whole.count(), stage)
                           : fmt::format("{} took longer than {} ms", stage, stage_limit.count());
  return {sent ? ErrorCode::kTimeout : ErrorCode::kUnavailable, std::move(text)};
}

void Call::State::finish(Status status) {
  abort = nullptr;
  watchdog.off();
  if (over.exchange(true) || forgotten) {
    return;
  }
  if (streaming) {
    on_end(std::move(status));
  } else if (status) {
    on_response(std::move(response));
  } else {
    on_response(fail(std::move(status).error()));
  }
  // What they captured may hold the handle, and the handle holds us.
  on_end = nullptr;
  on_response = nullptr;
  sink = {};
}

Call& Call::operator=(Call&& other) noexcept {
  if (this != &other) {
    const Call ended(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

Call::~Call() {
  if (state_ == nullptr || state_->over) {
    return;
  }
  const auto end = [state = state_] {
    state->forgotten = true;
    state->interrupt({ErrorCode::kCancelled, "the request was given up"});
  };
  if (state_->loop.here()) {
    end();
  } else {
    state_->loop.post(end);
  }
}

void Call::cancel() {
  if (active()) {
    state_->loop.post(
        [state = state_] { state->interrupt({ErrorCode::kCancelled, "the request was cancelled"}); });
  }
}

void Call::resume() {
  if (active()) {
    state_->loop.post([state = state_] {
      state->paused = false;
      state->gate.cancel();
    });
  }
}

bool Call::active() const {
  return state_ != nullptr && !state_->over;
}

Client::Core::Core(EventLoop& owner, ClientOptions settings, Url where, std::optional<RotatingTls> material,
                   std::string ready_fields)
    : loop(owner),
      options(std::move(settings)),
      url(std::move(where)),
      tls(std::move(material)),
      fields(std::move(ready_fields)),
      reaper(owner.core().deadlines, [this] { reap(); }) {}

std::unique_ptr<ClientConnection> Client::Core::take_idle() {
  while (!idle.empty()) {
    std::unique_ptr<ClientConnection> connection = std::move(idle.back());
    idle.pop_back();
    // Nothing may come on an idle connection but its end.
    if (!connection->stream.readable()) {
      return connection;
    }
    drop(std::move(connection));
  }
  return nullptr;
}

void Client::Core::give_back(std::unique_ptr<ClientConnection> connection) {
  if (shut || idle.size() >= options.max_idle_connections) {
    drop(std::move(connection));
    return;
  }
  connection->idle_since = std::chrono::steady_clock::now();
  idle.push_back(std::move(connection));
  reaper.set(idle.front()->idle_since + options.keep_idle);
  wake_one();
}

void Client::Core::drop(std::unique_ptr<ClientConnection> connection) {
  connection.reset();
  --open;
  wake_one();
}

void Client::Core::wake_one() {
  if (!waiting.empty()) {
    // Out of the queue at once: two connections that come free together must wake two.
    SteadyTimer* const gate = waiting.front();
    waiting.pop_front();
    ++promised;
    gate->cancel();
  }
}

void Client::Core::reap() {
  close_idle(std::chrono::steady_clock::now() - options.keep_idle);
  if (!idle.empty()) {
    reaper.set(idle.front()->idle_since + options.keep_idle);
  }
}

void Client::Core::close_idle(SteadyTime before) {
  while (!idle.empty() && idle.front()->idle_since <= before) {
    std::unique_ptr<ClientConnection> connection = std::move(idle.front());
    idle.pop_front();
    drop(std::move(connection));
  }
}

Result<Client> Client::create(EventLoop& loop, ClientOptions options) {
  Url url = TRY(with_context(parse_url(options.url), "the server's URL"));
  std::optional<RotatingTls> tls;
  if (url.tls) {
    tls = TRY(RotatingTls::for_client(options.tls));
  }
  std::string fields = TRY(common_fields(options, url));
  return Client(
      std::make_shared<Core>(loop, std::move(options), std::move(url), std::move(tls), std::move(fields)));
}

Client::Client(Client&&) noexcept = default;

Client& Client::operator=(Client&& other) noexcept {
  if (this != &other) {
    const Client ended(std::move(*this));
    core_ = std::move(other.core_);
  }
  return *this;
}

Client::~Client() {
  if (core_ != nullptr) {
    core_->loop.call([this] {
      core_->shut = true;
      core_->reaper.off();
      core_->close_idle();
    });
  }
}

namespace {

void rethrow(const std::exception_ptr& error) {
  if (error) {
    std::rethrow_exception(error);  // a callback threw, against the rules: the loop's thread ends the process
  }
}

// On the loop's thread at once, up to the first wait.
void start(const std::shared_ptr<Client::Core>& core, std::shared_ptr<Call::State> state) {
  if (core->loop.here()) {
    asio::co_spawn(core->executor(), core->carry_out(core, state), rethrow);
    state->handed_out = true;
    return;
  }
  state->handed_out = true;
  core->loop.post([core, state = std::move(state)] {
    asio::co_spawn(core->executor(), core->carry_out(core, state), rethrow);
  });
}

}  // namespace

Call Client::send(ClientRequest request, OnResponse done) {
  const ClientTimeouts timeouts = request.timeouts.value_or(core_->options.timeouts);
  auto state = std::make_shared<Call::State>(core_->loop, std::move(request), timeouts);
  state->on_response = std::move(done);
  start(core_, state);
  return Call(std::move(state));
}

Call Client::stream(ClientRequest request, StreamSink sink, OnEnd done) {
  ClientTimeouts timeouts = core_->options.timeouts;
  timeouts.idle = timeouts.whole = std::chrono::milliseconds(0);
  timeouts = request.timeouts.value_or(timeouts);
  auto state = std::make_shared<Call::State>(core_->loop, std::move(request), timeouts);
  state->streaming = true;
  state->sink = std::move(sink);
  state->on_end = std::move(done);
  start(core_, state);
  return Call(std::move(state));
}

Result<ClientResponse> Client::fetch(ClientRequest request) {
  if (core_->loop.here()) {
    return fail(ErrorCode::kInternal, "Client::fetch was called on the thread that has to bring the answer");
  }
  auto answer = std::make_shared<std::promise<Result<ClientResponse>>>();
  std::future<Result<ClientResponse>> future = answer->get_future();
  const Call call = send(std::move(request), [answer](Result<ClientResponse> response) {
    answer->set_value(std::move(response));
  });
  return wait_for_answer(core_->loop, future);
}

std::size_t Client::open_connections() const {
  return core_->open;
}

std::size_t Client::idle_connections() const {
  return core_->idle.size();
}

}  // namespace tessera::http
