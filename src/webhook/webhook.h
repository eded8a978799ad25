// webhook/webhook.h
//
// All parts of a running webhook: the server that the API server calls, its certificates, health
// and metrics.
//
//   std::unique_ptr<Webhook> webhook = TRY(Webhook::create(loop, config, own_pod, access));
//   loop.post([&] { webhook->start(); });
//   ... loop.run() ...
//   webhook->stop([&] { loop.stop(); });  // finishes calls in flight
//
// Create it before the loop runs. Call everything else on the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "http/event_loop.h"
#include "kube/kubeconfig.h"
#include "webhook/config.h"

namespace tessera::webhook {

// The pod of this process; both empty outside of a cluster.
struct OwnPod {
  std::string name;
  std::string namespace_name;
};

class Webhook {
 public:
  // `loop` must outlive the webhook. `access` is not needed if the certificates are in files.
  // Returns kInvalid or kUnavailable if the webhook cannot listen on its addresses, or cannot use
  // its certificate files or `access`.
  static Result<std::unique_ptr<Webhook>> create(http::EventLoop& loop, const Config& config,
                                                 const OwnPod& own_pod,
                                                 std::optional<kube::ClusterAccess> access);
  Webhook(const Webhook&) = delete;
  Webhook& operator=(const Webhook&) = delete;
  ~Webhook();

  void start();
  // Answers the calls in flight, then calls `done`.
  void stop(std::function<void()> done);

  // Return the ports for the API server's calls and for health, for tests that let the system choose them.
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::uint16_t health_port() const;

 private:
  struct Impl;
  explicit Webhook(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Runs the program: parses the command line, serves until a signal, and returns the exit code.
int run(int argc, char** argv);

}  // namespace tessera::webhook
