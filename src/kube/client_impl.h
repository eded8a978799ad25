// kube/client_impl.h
//
// The hidden parts of Client and Call. Private to client.cc and client_attempt.cc.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kube/client.h"

namespace tessera::kube {

// One request. Used only on the loop's thread, except `over`.
struct Call::Impl {
  Impl(http::EventLoop& owner, Request what) : loop(owner), request(std::move(what)) {}

  http::EventLoop& loop;
  Request request;
  std::optional<Backoff> backoff;  // set after the first failure
  Clock::Steady deadline{};
  int attempts = 0;
  bool maybe_done = false;   // the server may have processed the request in an earlier attempt
  bool given_up = false;     // the final error has been posted to the loop
  bool refreshed = false;    // the credential was refreshed once
  CredentialPtr credential;  // sent with the current attempt
  http::Call transfer;
  http::Timer wait;

  Client::OnReply on_reply;

  bool streaming = false;
  std::chrono::milliseconds idle{0};
  Client::OnData on_data;
  Client::OnEnd on_end;
  int status = 0;       // HTTP status of the stream
  std::string refusal;  // body of an error response to a stream
  std::string retry_after;

  std::atomic<bool> over = false;

  // Aborts the request without a callback, because the Call was destroyed.
  void forget();
  // Call the callback, at most once.
  void reply(Result<Reply> result);
  void end(StreamEnd result);
};

struct Client::Impl : std::enable_shared_from_this<Impl> {
  Impl(http::EventLoop& owner, ClusterAccess where, ClientOptions settings);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  using CallPtr = std::shared_ptr<Call::Impl>;

  // Creates `transport` for the certificate of `credential`. Does nothing if the current
  // `transport` already uses that certificate.
  Status connect_with(const Credential& credential);

  void start(const CallPtr& call);

  // client_attempt.cc: the steps of one attempt.
  void attempt(const CallPtr& call);
  void attempt_with(const CallPtr& call, CredentialPtr credential);
  void transfer(const CallPtr& call);
  void on_response(const CallPtr& call, Result<http::ClientResponse> response);
  void on_failure(const CallPtr& call, const Attempt& attempt);
  void stream_ended(const CallPtr& call, Status status);
  void give_up(const CallPtr& call, Error error);
  // Returns the time until the deadline.
  [[nodiscard]] std::chrono::milliseconds left(const Call::Impl& call) const;
  http::ClientRequest http_request(Call::Impl& call) const;

  // Adds the call to `waiting` and runs the exec plugin on its own thread, unless it already runs.
  // All waiting requests use the credential of the same run.
  void wait_for_plugin(const CallPtr& call);
  void on_plugin_finished(const Result<CredentialPtr>& credential);

  http::EventLoop& loop;
  const ClusterAccess access;
  const ClientOptions options;
  const Random random;
  Credentials credentials;
  std::optional<http::Client> transport;
  bool unencrypted = false;  // no TLS and not loopback, so credentials are not sent
  std::uint64_t certificate_generation = 0;
  std::uint64_t rejected_generation = 0;  // generation of the last certificate that was unusable
  std::vector<CallPtr> waiting;           // for the exec plugin
  std::thread plugin;                     // runs the exec plugin
};

}  // namespace tessera::kube
