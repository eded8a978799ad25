#include "http/client.h"

#include <fmt/core.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <future>

#include "http/client_impl.h"
#include "http/wait_for_response.h"

namespace tessera::http {
namespace {

SteadyTime from_now(std::chrono::milliseconds limit) {
  return limit.count() == 0 ? SteadyTime::max() : std::chrono::steady_clock::now() + limit;
}

bool is_safe(const std::string& method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

}  // namespace

Call::Impl::Impl(EventLoop& owner, ClientRequest what, ClientTimeouts limits)
    : loop(owner),
      request(std::move(what)),
      timeouts(limits),
      safe(is_safe(request.method)),
      repeatable(safe || request.may_repeat),
      gate(owner.impl().io.get_executor()),
      whole_at(from_now(limits.whole)),
      watchdog(owner.impl().deadlines, [this] { interrupt(timeout_error()); }) {}

void Call::Impl::start_stage(std::chrono::milliseconds limit, const char* what, SteadyTime from) {
  stage = what;
  stage_limit = limit;
  watchdog.set(limit.count() == 0 ? whole_at : std::min(from + limit, whole_at));
}

void Call::Impl::interrupt(Error error) {
  if (interrupted || finished) {
    return;
  }
  interrupted = std::move(error);
  gate.cancel();
  if (abort) {
    abort();
  }
}

Error Call::Impl::connection_error(std::string text) const {
  if (sent && !safe) {
    return {ErrorCode::kTimeout,
            std::move(text) + " after the request was sent; whether the server processed it is unknown"};
  }
  return {ErrorCode::kUnavailable, std::move(text)};
}

Error Call::Impl::timeout_error() const {
  const bool whole = std::chrono::steady_clock::now() >= whole_at;
  std::string text = whole ? fmt::format("timed out after {} ms while {}", timeouts.whole.count(), stage)
                           : fmt::format("{} took longer than {} ms", stage, stage_limit.count());
  return {sent ? ErrorCode::kTimeout : ErrorCode::kUnavailable, std::move(text)};
}

void Call::Impl::finish(Status status) {
  abort = nullptr;
  watchdog.off();
  if (finished.exchange(true) || abandoned) {
    return;
  }
  if (streaming) {
    on_end(std::move(status));
  } else if (status) {
    on_response(std::move(response));
  } else {
    on_response(fail(std::move(status).error()));
  }
  // The callbacks may have captured the handle, which owns this object: break the cycle.
  on_end = nullptr;
  on_response = nullptr;
  sink = {};
}

Call& Call::operator=(Call&& other) noexcept {
  if (this != &other) {
    const Call ended(std::move(*this));
    impl_ = std::move(other.impl_);
  }
  return *this;
}

Call::~Call() {
  if (impl_ == nullptr || impl_->finished) {
    return;
  }
  const auto end = [impl = impl_] {
    impl->abandoned = true;
    impl->interrupt({ErrorCode::kCancelled, "the request was abandoned"});
  };
  if (impl_->loop.here()) {
    end();
  } else {
    impl_->loop.post(end);
  }
}

void Call::cancel() {
  if (active()) {
    impl_->loop.post(
        [impl = impl_] { impl->interrupt({ErrorCode::kCancelled, "the request was cancelled"}); });
  }
}

void Call::resume() {
  if (active()) {
    impl_->loop.post([impl = impl_] {
      impl->paused = false;
      impl->gate.cancel();
    });
  }
}

bool Call::active() const {
  return impl_ != nullptr && !impl_->finished;
}

Client::Impl::Impl(EventLoop& owner, ClientOptions settings, Url where, std::optional<RotatingTls> material,
                   std::string ready_fields)
    : loop(owner),
      options(std::move(settings)),
      url(std::move(where)),
      tls(std::move(material)),
      fields(std::move(ready_fields)),
      reaper(owner.impl().deadlines, [this] { close_expired(); }) {}

std::unique_ptr<ClientConnection> Client::Impl::take_idle() {
  while (!idle.empty()) {
    std::unique_ptr<ClientConnection> connection = std::move(idle.back());
    idle.pop_back();
    // An idle connection is readable only if the server closed it or sent unexpected data.
    if (!connection->stream.readable()) {
      return connection;
    }
    drop(std::move(connection));
  }
  return nullptr;
}

void Client::Impl::return_to_pool(std::unique_ptr<ClientConnection> connection) {
  if (closed || idle.size() >= options.max_idle_connections) {
    drop(std::move(connection));
    return;
  }
  connection->idle_since = std::chrono::steady_clock::now();
  idle.push_back(std::move(connection));
  reaper.set(idle.front()->idle_since + options.keep_idle);
  wake_one();
}

void Client::Impl::drop(std::unique_ptr<ClientConnection> connection) {
  connection.reset();
  --open;
  wake_one();
}

void Client::Impl::wake_one() {
  if (!waiting.empty()) {
    // Remove it from the queue at once: two connections freed together must wake two requests.
    SteadyTimer* const gate = waiting.front();
    waiting.pop_front();
    ++reserved;
    gate->cancel();
  }
}

void Client::Impl::close_expired() {
  close_idle(std::chrono::steady_clock::now() - options.keep_idle);
  if (!idle.empty()) {
    reaper.set(idle.front()->idle_since + options.keep_idle);
  }
}

void Client::Impl::close_idle(SteadyTime before) {
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
      std::make_shared<Impl>(loop, std::move(options), std::move(url), std::move(tls), std::move(fields)));
}

Client::Client(Client&&) noexcept = default;

Client& Client::operator=(Client&& other) noexcept {
  if (this != &other) {
    const Client ended(std::move(*this));
    impl_ = std::move(other.impl_);
  }
  return *this;
}

Client::~Client() {
  if (impl_ != nullptr) {
    impl_->loop.call([this] {
      impl_->closed = true;
      impl_->reaper.off();
      impl_->close_idle();
    });
  }
}

namespace {

void rethrow(const std::exception_ptr& error) {
  if (error) {
    std::rethrow_exception(error);  // callbacks must not throw; this ends the process
  }
}

// Starts the request. On the loop's thread it runs at once, up to the first wait.
void start(const std::shared_ptr<Client::Impl>& client, std::shared_ptr<Call::Impl> call) {
  if (client->loop.here()) {
    asio::co_spawn(client->executor(), client->run_request(client, call), rethrow);
    call->may_call_back = true;
    return;
  }
  call->may_call_back = true;
  client->loop.post([client, call = std::move(call)] {
    asio::co_spawn(client->executor(), client->run_request(client, call), rethrow);
  });
}

}  // namespace

Call Client::send(ClientRequest request, OnResponse done) {
  const ClientTimeouts timeouts = request.timeouts.value_or(impl_->options.timeouts);
  auto call = std::make_shared<Call::Impl>(impl_->loop, std::move(request), timeouts);
  call->on_response = std::move(done);
  start(impl_, call);
  return Call(std::move(call));
}

Call Client::stream(ClientRequest request, StreamSink sink, OnEnd done) {
  ClientTimeouts timeouts = impl_->options.timeouts;
  timeouts.idle = timeouts.whole = std::chrono::milliseconds(0);
  timeouts = request.timeouts.value_or(timeouts);
  auto call = std::make_shared<Call::Impl>(impl_->loop, std::move(request), timeouts);
  call->streaming = true;
  call->sink = std::move(sink);
  call->on_end = std::move(done);
  start(impl_, call);
  return Call(std::move(call));
}

Result<ClientResponse> Client::fetch(ClientRequest request) {
  if (impl_->loop.here()) {
    return fail(ErrorCode::kInternal, "Client::fetch must not be called on the thread of the event loop");
  }
  auto promise = std::make_shared<std::promise<Result<ClientResponse>>>();
  std::future<Result<ClientResponse>> future = promise->get_future();
  const Call call = send(std::move(request), [promise](Result<ClientResponse> response) {
    promise->set_value(std::move(response));
  });
  return wait_for_response(impl_->loop, future);
}

std::size_t Client::open_connections() const {
  return impl_->open;
}

std::size_t Client::idle_connections() const {
  return impl_->idle.size();
}

}  // namespace tessera::http
