// kube/client.h
//
// A client of one API server as one user. Adds credential, user agent and deadline to every
// request, retries by the rules of retry.h, and returns error responses as errors.
//
//   Client client = TRY(Client::create(loop, access, {.user_agent = "tessera-extender/0.1"}));
//   Call call = client.send(get_request(node_path("gpu-a")), [](Result<Reply> reply) { ... });
//   Result<Reply> reply = client.fetch(get_request("/version"));        // command-line programs
//
// Any thread may send and cancel. Callbacks run on the loop's thread. The loop must outlive the
// client.
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
  Credentials::RunPlugin run_plugin{};  // replaces the exec plugin in tests
};

struct Reply {
  int status = 0;  // 200..299
  json::PaddedBuffer body;
};

// A handle to a request in flight. Destroying it aborts the request. If it is destroyed on the
// loop's thread, no callback runs afterwards.
class [[nodiscard]] Call {
 public:
  Call() = default;
  Call(Call&&) noexcept = default;
  Call& operator=(Call&& other) noexcept;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

  [[nodiscard]] bool active() const;

  struct Impl;

 private:
  friend class Client;
  explicit Call(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// How a stream ended. If neither `refused` nor `broken` is set, the server closed it cleanly.
struct StreamEnd {
  std::optional<ApiStatus> refused;  // the server responded with an error
  std::optional<Error> broken;       // no connection, or the connection broke
  bool opened = false;               // the server accepted the request (status 200)
};

class Client {
 public:
  using OnReply = std::function<void(Result<Reply>)>;
  using OnData = std::function<void(json::PaddedView)>;
  using OnEnd = std::function<void(StreamEnd)>;

  // Reads certificates and checks addresses, but does not connect yet. Logs a warning if the
  // kubeconfig disables the verification of the server.
  static Result<Client> create(http::EventLoop& loop, ClusterAccess access, ClientOptions options);

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  // Requests in flight continue; their Calls still control them. Waits for a running exec plugin.
  ~Client();

  // Sends a request. Calls `done` once, but never inside send(). Passes an error to `done` if no
  // attempt succeeds; a response with status 300 or higher is a failure. The error code kTimeout
  // means that the server may have processed the request (retry.h).
  Call send(Request request, OnReply done);

  // Sends a request and waits for the response. Runs the loop itself if no other thread does. Must
  // not be called on the loop's thread.
  Result<Reply> fetch(Request request);

  // Sends a request with an endless response (a watch) and passes its data to `on_data` as it
  // arrives. Does not retry, because only the caller knows where to resume. Treats the connection
  // as broken after `idle` without data.
  Call stream(Request request, std::chrono::milliseconds idle, OnData on_data, OnEnd on_end);

  [[nodiscard]] http::EventLoop& loop() const;
  [[nodiscard]] const Clock& clock() const;
  // Returns the namespace of the kubeconfig's context, or, inside a cluster, the namespace of this
  // pod.
  [[nodiscard]] const std::string& default_namespace() const;
  [[nodiscard]] const std::string& server() const;
  // Returns random numbers for backoff. The loop's thread only.
  [[nodiscard]] Random random() const;

  struct Impl;

 private:
  explicit Client(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace tessera::kube
