// kube/client_core.h
//
// The inside of Client, for client.cc and client_attempt.cc.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kube/client.h"

namespace tessera::kube {

// One request from send() to its end; touched on the loop's thread only, but for `over`.
struct Call::State {
  State(http::EventLoop& owner, Request what) : loop(owner), request(std::move(what)) {}

  http::EventLoop& loop;
  Request request;
  std::optional<Backoff> backoff;  // of a request that failed
  Clock::Steady deadline{};
  int attempts = 0;
  bool maybe_done = false;   // some attempt may have reached its aim
  bool given_up = false;     // the end is on its way to the caller
  bool refreshed = false;    // a new credential was asked for once
  CredentialPtr credential;  // what the attempt under way was sent with
  http::Call transfer;
  http::Timer wait;

  Client::OnReply on_reply;

  bool streaming = false;
  std::chrono::milliseconds idle{0};
  Client::OnData on_data;
  Client::OnEnd on_end;
  int status = 0;       // of the stream's head
  std::string refusal;  // body of a stream that was refused
  std::string retry_after;

  std::atomic<bool> over = false;

  void forget();
  void reply(Result<Reply> result);
  void end(StreamEnd result);
};

struct Client::Core : std::enable_shared_from_this<Core> {
  Core(http::EventLoop& owner, ClusterAccess where, ClientOptions settings);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core();

  using StatePtr = std::shared_ptr<Call::State>;

  Status connect_with(const Credential& credential);

  void start(const StatePtr& state);

  // The steps of one attempt, client_attempt.cc.
  void attempt(const StatePtr& state);
  void attempt_with(const StatePtr& state, CredentialPtr credential);
  void transfer(const StatePtr& state);
  void answered(const StatePtr& state, Result<http::ClientResponse> response);
  void failed(const StatePtr& state, const Attempt& attempt);
  void stream_ended(const StatePtr& state, Status status);
  void give_up(const StatePtr& state, Error error);
  [[nodiscard]] std::chrono::milliseconds left(const Call::State& state) const;
  http::ClientRequest http_request(Call::State& state) const;

  // Runs the exec plugin beside the loop; all who need a credential wait for it together.
  void wait_for_plugin(const StatePtr& state);
  void plugin_ended(const Result<CredentialPtr>& credential);

  http::EventLoop& loop;
  const ClusterAccess access;
  const ClientOptions options;
  const Random random;
  Credentials credentials;
  std::optional<http::Client> transport;
  bool in_the_clear = false;  // anybody on the way could read a credential
  std::uint64_t certificate_generation = 0;
  std::uint64_t complained_generation = 0;  // of certificates that could not be used
  std::vector<StatePtr> waiting;
  std::thread plugin;
};

}  // namespace tessera::kube
