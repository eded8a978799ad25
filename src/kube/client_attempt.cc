// One attempt of a request: get a credential, send, judge the outcome, then retry or finish.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "kube/client_impl.h"

namespace tessera::kube {

namespace {

constexpr std::size_t kMaxRefusal = 64U << 10U;
constexpr std::chrono::milliseconds kShortest(1);

}  // namespace

std::chrono::milliseconds Client::Impl::left(const Call::Impl& call) const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(call.deadline - options.clock->now());
}

// Posts the error, because send() may be our caller and has not returned the Call yet.
void Client::Impl::give_up(const CallPtr& call, Error error) {
  call->given_up = true;
  loop.post([weak = std::weak_ptr(call), error = std::move(error)] {
    const CallPtr alive = weak.lock();
    if (alive == nullptr) {
      return;
    }
    if (alive->streaming) {
      alive->end({.refused = {}, .broken = error, .opened = false});
      return;
    }
    const Request& request = alive->request;
    alive->reply(fail(Error(error).context(request.what.empty()
                                               ? fmt::format("{} {}", to_string(request.method), request.path)
                                               : request.what)));
  });
}

void Client::Impl::attempt(const CallPtr& call) {
  if (call->over) {
    return;
  }
  if (!call->streaming && left(*call) <= std::chrono::milliseconds(0)) {
    give_up(call, call->maybe_done ? Error(ErrorCode::kTimeout,
                                           "not retried: the deadline has passed; whether the server "
                                           "processed an earlier attempt is unknown")
                                   : Error(ErrorCode::kUnavailable, "not sent: the deadline has passed"));
    return;
  }
  if (credentials.blocks()) {
    wait_for_plugin(call);
    return;
  }
  auto credential = credentials.current();
  if (!credential) {
    give_up(call, std::move(credential).error());
    return;
  }
  attempt_with(call, std::move(*credential));
}

void Client::Impl::attempt_with(const CallPtr& call, CredentialPtr credential) {
  call->credential = std::move(credential);
  if (Status connected = connect_with(*call->credential); !connected) {
    if (!transport || access.user.exec) {
      give_up(call, std::move(connected).error());
      return;
    }
    // Certificate and key are two files, and one of them may be replaced before the other. Keep
    // using the old pair; each request checks again until the new ones match.
    if (std::exchange(rejected_generation, call->credential->certificate_generation) !=
        call->credential->certificate_generation) {
      log::warn("the new client certificate cannot be used; keeping the previous one",
                {{"user", access.user.name}, {"error", connected.error()}});
    }
    credentials.refused(*call->credential);
  }
  transfer(call);
}

void Client::Impl::wait_for_plugin(const CallPtr& call) {
  waiting.push_back(call);
  // A plugin may wait for user input, but the request still has a deadline.
  call->wait =
      loop.after(std::max(left(*call), std::chrono::milliseconds(0)),
                 [weak = weak_from_this(), waiter = std::weak_ptr(call)] {
                   const CallPtr alive = waiter.lock();
                   if (const auto impl = weak.lock(); impl != nullptr && alive != nullptr) {
                     impl->give_up(alive, Error(ErrorCode::kUnavailable,
                                                fmt::format("user {}: the exec plugin did not finish in time",
                                                            in_quotes(impl->access.user.name))));
                   }
                 });
  if (waiting.size() > 1) {
    return;
  }
  if (plugin.joinable()) {
    plugin.join();  // the previous run has finished
  }
  // The thread holds only a weak reference; the destructor of Impl joins it.
  plugin = std::thread([this, weak = weak_from_this()] {
    auto credential = credentials.current();
    loop.post([weak, credential = std::move(credential)] {
      if (const auto impl = weak.lock()) {
        impl->on_plugin_finished(credential);
      }
    });
  });
}

void Client::Impl::on_plugin_finished(const Result<CredentialPtr>& credential) {
  for (const CallPtr& call : std::exchange(waiting, {})) {
    call->wait = {};
    if (call->over || call->given_up) {
      continue;
    }
    if (credential) {
      // Do not check the expiry again: a credential that expires soon would run the plugin in a
      // loop.
      attempt_with(call, *credential);
    } else {
      give_up(call, credential.error());
    }
  }
}

http::ClientRequest Client::Impl::http_request(Call::Impl& call) const {
  const Request& request = call.request;
  const std::chrono::milliseconds remaining = std::max(left(call), kShortest);
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
    // Give the server the same deadline: a write that it has queued must not happen after ours.
    http.target.append(1, before).append("timeout=").append(std::to_string(remaining.count())).append("ms");
  }
  http.headers.reserve(3);
  http.headers.emplace_back("Accept", request.accept);
  if (!request.body.empty()) {
    http.headers.emplace_back("Content-Type", request.content_type);
  }
  if (!call.credential->authorization.empty() && !unencrypted) {
    http.headers.emplace_back("Authorization", call.credential->authorization);
  }
  http.body = request.body;
  http.may_repeat = request.retry.repeat == Repeat::kSafe;
  http.max_response_bytes = request.max_response_bytes;
  http.cut_response = request.cut_response;
  http.buffer = std::move(call.request.buffer);
  http::ClientTimeouts timeouts;
  timeouts.connect = std::min(options.connect_timeout, remaining);
  timeouts.idle = call.idle;
  timeouts.whole = call.streaming ? std::chrono::milliseconds(0) : remaining;
  // A keep-alive connection may be dead without our noticing. Leave time for a retry if one is
  // allowed.
  const bool may_try_again = request.retry.repeat == Repeat::kSafe && call.attempts <= 1 && !call.streaming;
  timeouts.first_byte = may_try_again ? std::max(remaining / 2, kShortest) : remaining;
  http.timeouts = timeouts;
  return http;
}

// The caller's Call owns the Call::Impl, which owns its transfer and its timer. These hold only
// weak references to it; otherwise a loop that ends before the call would leave a reference cycle.
void Client::Impl::transfer(const CallPtr& call) {
  ++call->attempts;
  auto self = shared_from_this();
  const std::weak_ptr<Call::Impl> weak = call;
  if (!call->streaming) {
    call->transfer =
        transport->send(http_request(*call), [self, weak](Result<http::ClientResponse> response) {
          if (const CallPtr alive = weak.lock()) {
            self->on_response(alive, std::move(response));
          }
        });
    return;
  }
  http::StreamSink sink;
  sink.on_head = [weak](const http::ResponseHead& head) {
    if (const CallPtr alive = weak.lock()) {
      alive->status = head.status;
      alive->retry_after = head.headers.find("Retry-After");
    }
    return http::Flow::kContinue;
  };
  sink.on_data = [weak](json::PaddedView data) {
    const CallPtr alive = weak.lock();
    if (alive == nullptr || alive->over) {
      return http::Flow::kContinue;
    }
    if (alive->status == 200) {
      alive->on_data(data);
    } else if (alive->refusal.size() < kMaxRefusal) {
      alive->refusal += data.text();
    }
    return http::Flow::kContinue;
  };
  call->transfer = transport->stream(http_request(*call), std::move(sink), [self, weak](Status status) {
    if (const CallPtr alive = weak.lock()) {
      self->stream_ended(alive, std::move(status));
    }
  });
}

void Client::Impl::stream_ended(const CallPtr& call, Status status) {
  StreamEnd end;
  end.opened = call->status == 200;
  if (call->status != 0 && call->status != 200) {
    end.refused = status_of_response(call->status, call->refusal, call->retry_after);
    if (call->status == 401) {
      credentials.refused(*call->credential);
    }
  } else if (!status) {
    end.broken = std::move(status).error();
  }
  call->end(std::move(end));
}

void Client::Impl::on_response(const CallPtr& call, Result<http::ClientResponse> response) {
  if (call->over) {
    return;
  }
  if (!response) {
    on_failure(call, {.status = {}, .transport = std::move(response).error()});
    return;
  }
  if (response->status >= 200 && response->status < 300) {
    call->reply(Reply{.status = response->status, .body = std::move(response->body)});
    return;
  }
  Attempt attempt;
  attempt.status =
      status_of_response(response->status, response->body.text(), response->headers.find("Retry-After"));
  call->request.buffer = std::move(response->body);
  on_failure(call, attempt);
}

void Client::Impl::on_failure(const CallPtr& call, const Attempt& attempt) {
  const RetryVerdict verdict = judge(call->request.retry, attempt);
  call->maybe_done =
      call->maybe_done || (call->request.method != Method::kGet && !certainly_not_done(attempt));
  bool again = verdict.again && call->attempts < call->request.max_attempts;
  std::chrono::milliseconds wait(0);
  if (verdict.refresh_credential) {
    // The server did nothing. A newer credential justifies one more attempt even beyond
    // max_attempts, and later requests need it too.
    const bool fresher = credentials.refused(*call->credential);
    again = fresher && !std::exchange(call->refreshed, true);
  } else {
    if (!call->backoff) {
      call->backoff.emplace(options.backoff, random);
    }
    wait = std::max<std::chrono::milliseconds>(call->backoff->next(), verdict.at_least);
  }
  if (!again || wait >= left(*call)) {
    give_up(call, final_error(call->request.retry, attempt));
    return;
  }
  call->wait = loop.after(wait, [self = shared_from_this(), weak = std::weak_ptr(call)] {
    if (const CallPtr alive = weak.lock()) {
      self->attempt(alive);
    }
  });
}

}  // namespace tessera::kube
