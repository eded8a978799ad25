// kube/client.h
//
// Talks to one API server as one user. Adds what every request needs (credential, user agent, deadline),
// repeats by the rules of retry.h, and turns refusals into errors.
//
//   Client client = TRY(Client::create(loop, access, {.user_agent = "tessera-extender/0.1"}));
//   Call call = client.send(get_request(node_path("gpu-a")), [](Result<Reply> reply) { ... });
//   Result<Reply> reply = client.fetch(get_request("/version"));        // command-line programs
//
// Any thread may send and cancel; all callbacks come on the loop's thread. The loop must outlive it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "http/client.h"
#include "http/event_loop.h"
#include "kube/backoff.h"
#include "kube/credentials.h"
#include "kube/kubeconfig.h"
#include "kube/request.h"

namespace tessera::kube {

struct ClientOptions {
  std::string user_agent = "tessera";
  std::size_t max_connections = 64;
  std::chrono::milliseconds connect_timeout{10'000};
  BackoffOptions backoff{.first = std::chrono::milliseconds(100), .cap = std::chrono::milliseconds(5'000)};
  const Clock* clock = &Clock::real();
  Random random{};                      // default_random() if empty
  Credentials::RunPlugin run_plugin{};  // instead of the real exec plugin, for tests
};

struct Reply {
  int status = 0;  // 200..299
  json::PaddedBuffer body;
};

// A request under way. Destroying it gives the request up; on the loop's thread nothing is called any more
// then.
class [[nodiscard]] Call {
 public:
  Call() = default;
  Call(Call&&) noexcept = default;
  Call& operator=(Call&& other) noexcept;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

  [[nodiscard]] bool active() const;

  struct State;

 private:
  friend class Client;
  explicit Call(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// How a stream ended: refused by the server, broken, or neither (it closed the stream in order).
struct StreamEnd {
  std::optional<ApiStatus> refused;
  std::optional<Error> broken;
  bool opened = false;  // the server had agreed to it
};

class Client {
 public:
  using OnReply = std::function<void(Result<Reply>)>;
  using OnData = std::function<void(json::PaddedView)>;
  using OnEnd = std::function<void(StreamEnd)>;

  // Reads certificates and checks addresses, but connects to nobody yet. Warns in the log when the kubeconfig
  // switches the verification of the server off.
  static Result<Client> create(http::EventLoop& loop, ClusterAccess access, ClientOptions options);

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  // Requests under way go on until their Call ends them. Waits for an exec plugin that runs.
  ~Client();

  // `done` comes once, later. Errors are those of final_error(): kTimeout means that it is unknown whether
  // the request was carried out. Every answer with a status of 300 and more is an error.
  Call send(Request request, OnReply done);

  // Waits for the answer; runs the loop itself where nobody does. Not on the loop's thread.
  Result<Reply> fetch(Request request);

  // An endless answer (a watch), in pieces as they come. Tried once: who watches knows better how to go on.
  // `idle`: end it as broken when so long nothing came.
  Call stream(Request request, std::chrono::milliseconds idle, OnData on_data, OnEnd on_end);

  [[nodiscard]] http::EventLoop& loop() const;
  [[nodiscard]] const Clock& clock() const;
  // The namespace of the context or of the pod.
  [[nodiscard]] const std::string& default_namespace() const;
  [[nodiscard]] const std::string& server() const;
  // A sequence of random numbers for backoff; on the loop's thread.
  [[nodiscard]] Random random() const;

  struct Core;

 private:
  explicit Client(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  std::shared_ptr<Core> core_;
};

}  // namespace tessera::kube
