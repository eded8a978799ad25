// One attempt at a request: credential, transfer, judgement, and the next attempt or the end.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "kube/client_core.h"

namespace tessera::kube {

namespace {

constexpr std::size_t kMaxRefusal = 64U << 10U;
constexpr std::chrono::milliseconds kShortest(1);

}  // namespace

std::chrono::milliseconds Client::Core::left(const Call::State& state) const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(state.deadline - options.clock->now());
}

// Later: the caller of send() may be the one who calls us, and has no Call yet.
void Client::Core::give_up(const StatePtr& state, Error error) {
  state->given_up = true;
  loop.post([weak = std::weak_ptr(state), error = std::move(error)] {
    const StatePtr known = weak.lock();
    if (known == nullptr) {
      return;
    }
    if (known->streaming) {
      known->end({.refused = {}, .broken = error, .opened = false});
      return;
    }
    const Request& request = known->request;
    known->reply(fail(Error(error).context(request.what.empty()
                                               ? fmt::format("{} {}", to_string(request.method), request.path)
                                               : request.what)));
  });
}

void Client::Core::attempt(const StatePtr& state) {
  if (state->over) {
    return;
  }
  if (!state->streaming && left(*state) <= std::chrono::milliseconds(0)) {
    give_up(state, state->maybe_done ? Error(ErrorCode::kTimeout,
                                             "not sent again: the time for it is over; whether it was done "
                                             "the first time is unknown")
                                     : Error(ErrorCode::kUnavailable, "not sent: the time for it is over"));
    return;
  }
  if (credentials.blocks()) {
    wait_for_plugin(state);
    return;
  }
  auto credential = credentials.current();
  if (!credential) {
    give_up(state, std::move(credential).error());
    return;
  }
  attempt_with(state, std::move(*credential));
}

void Client::Core::attempt_with(const StatePtr& state, CredentialPtr credential) {
  state->credential = std::move(credential);
  if (Status connected = connect_with(*state->credential); !connected) {
    if (!transport || access.user.exec) {
      give_up(state, std::move(connected).error());
      return;
    }
    // Certificate and key are two files, and one of them may have been replaced a moment before the other.
    // The old pair goes on; each request looks again until they fit.
    if (std::exchange(complained_generation, state->credential->certificate_generation) !=
        state->credential->certificate_generation) {
      log::warn("the new client certificate cannot be used, the last one stays",
                {{"user", access.user.name}, {"error", connected.error()}});
    }
    credentials.refused(*state->credential);
  }
  transfer(state);
}

void Client::Core::wait_for_plugin(const StatePtr& state) {
  waiting.push_back(state);
  // A plugin may wait for a person; the request has a deadline all the same.
  state->wait = loop.after(
      std::max(left(*state), std::chrono::milliseconds(0)),
      [weak = weak_from_this(), waiter = std::weak_ptr(state)] {
        const StatePtr known = waiter.lock();
        if (const auto core = weak.lock(); core != nullptr && known != nullptr) {
          core->give_up(known, Error(ErrorCode::kUnavailable,
                                     fmt::format("user {}: the exec plugin has not answered in time",
                                                 in_quotes(core->access.user.name))));
        }
      });
  if (waiting.size() > 1) {
    return;
  }
  if (plugin.joinable()) {
    plugin.join();  // the last one has ended long ago
  }
  // The thread keeps nothing alive: the core waits for it before it goes.
  plugin = std::thread([this, weak = weak_from_this()] {
    auto credential = credentials.current();
    loop.post([weak, credential = std::move(credential)] {
      if (const auto core = weak.lock()) {
        core->plugin_ended(credential);
      }
    });
  });
}

void Client::Core::plugin_ended(const Result<CredentialPtr>& credential) {
  for (const StatePtr& state : std::exchange(waiting, {})) {
    state->wait = {};
    if (state->over || state->given_up) {
      continue;
    }
    if (credential) {
      // As it is: one that runs out in a moment would otherwise make the plugin run again and again.
      attempt_with(state, *credential);
    } else {
      give_up(state, credential.error());
    }
  }
}

http::ClientRequest Client::Core::http_request(Call::State& state) const {
  const Request& request = state.request;
  const std::chrono::milliseconds remaining = std::max(left(state), kShortest);
  http::ClientRequest http;
  http.method = std::string(to_string(request.method));
  http.target.reserve(request.path.size() + request.query.size() + 24);
  http.target = request.path;
  char before = '?';
  if (!request.query.empty()) {
    http.target.append("?").append(request.query);
    before = '&';
  }
  if (request.method != Method::kGet) {
    // The server gives up when we do: a write that it has queued must not happen after our deadline.
    http.target.append(1, before).append("timeout=").append(std::to_string(remaining.count())).append("ms");
  }
  http.headers.reserve(2);
  if (!request.body.empty()) {
    http.headers.emplace_back("Content-Type", request.content_type);
  }
  if (!state.credential->authorization.empty() && !in_the_clear) {
    http.headers.emplace_back("Authorization", state.credential->authorization);
  }
  http.body = request.body;
  http.may_repeat = request.retry.repeat == Repeat::kSafe;
  http.max_response_bytes = request.max_response_bytes;
  http.buffer = std::move(state.request.buffer);
  http::ClientTimeouts timeouts;
  timeouts.connect = std::min(options.connect_timeout, remaining);
  timeouts.idle = state.idle;
  timeouts.whole = state.streaming ? std::chrono::milliseconds(0) : remaining;
  // A kept-alive connection can be dead without telling. What can be repeated leaves time for a second try.
  const bool may_try_again = request.retry.repeat == Repeat::kSafe && state.attempts <= 1 && !state.streaming;
  timeouts.first_byte = may_try_again ? std::max(remaining / 2, kShortest) : remaining;
  http.timeouts = timeouts;
  return http;
}

// The caller's Call owns the state, and the state its transfer and its timer: these know it only weakly, or a
// loop that ends before the call would leave the two holding each other.
void Client::Core::transfer(const StatePtr& state) {
  ++state->attempts;
  auto self = shared_from_this();
  const std::weak_ptr<Call::State> weak = state;
  if (!state->streaming) {
    state->transfer =
        transport->send(http_request(*state), [self, weak](Result<http::ClientResponse> response) {
          if (const StatePtr known = weak.lock()) {
            self->answered(known, std::move(response));
          }
        });
    return;
  }
  http::StreamSink sink;
  sink.on_head = [weak](const http::ResponseHead& head) {
    if (const StatePtr known = weak.lock()) {
      known->status = head.status;
      known->retry_after = head.headers.find("Retry-After");
    }
    return http::Flow::kContinue;
  };
  sink.on_data = [weak](json::PaddedView data) {
    const StatePtr known = weak.lock();
    if (known == nullptr || known->over) {
      return http::Flow::kContinue;
    }
    if (known->status == 200) {
      known->on_data(data);
    } else if (known->refusal.size() < kMaxRefusal) {
      known->refusal += data.text();
    }
    return http::Flow::kContinue;
  };
  state->transfer = transport->stream(http_request(*state), std::move(sink), [self, weak](Status status) {
    if (const StatePtr known = weak.lock()) {
      self->stream_ended(known, std::move(status));
    }
  });
}

void Client::Core::stream_ended(const StatePtr& state, Status status) {
  StreamEnd end;
  end.opened = state->status == 200;
  if (state->status != 0 && state->status != 200) {
    end.refused = status_of_answer(state->status, state->refusal, state->retry_after);
    if (state->status == 401) {
      credentials.refused(*state->credential);
    }
  } else if (!status) {
    end.broken = std::move(status).error();
  }
  state->end(std::move(end));
}

void Client::Core::answered(const StatePtr& state, Result<http::ClientResponse> response) {
  if (state->over) {
    return;
  }
  if (!response) {
    failed(state, {.answer = {}, .transport = std::move(response).error()});
    return;
  }
  if (response->status >= 200 && response->status < 300) {
    state->reply(Reply{.status = response->status, .body = std::move(response->body)});
    return;
  }
  Attempt attempt;
  attempt.answer =
      status_of_answer(response->status, response->body.text(), response->headers.find("Retry-After"));
  state->request.buffer = std::move(response->body);
  failed(state, attempt);
}

void Client::Core::failed(const StatePtr& state, const Attempt& attempt) {
  const RetryVerdict verdict = judge(state->request.retry, attempt);
  state->maybe_done =
      state->maybe_done || (state->request.method != Method::kGet && !certainly_not_done(attempt));
  bool again = verdict.again && state->attempts < state->request.max_attempts;
  std::chrono::milliseconds wait(0);
  if (verdict.refresh_credential) {
    // Refused before anything was done: a fresher credential is worth one more try, however few were allowed,
    // and those who come after us want it too.
    const bool fresher = credentials.refused(*state->credential);
    again = fresher && !std::exchange(state->refreshed, true);
  } else {
    if (!state->backoff) {
      state->backoff.emplace(options.backoff, random);
    }
    wait = std::max<std::chrono::milliseconds>(state->backoff->next(), verdict.at_least);
  }
  if (!again || wait >= left(*state)) {
    give_up(state, final_error(state->request.retry, attempt));
    return;
  }
  state->wait = loop.after(wait, [self = shared_from_this(), weak = std::weak_ptr(state)] {
    if (const StatePtr known = weak.lock()) {
      self->attempt(known);
    }
  });
}

}  // namespace tessera::kube
