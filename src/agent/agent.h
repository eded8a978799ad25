// agent/agent.h
//
// A running agent: the driver, the pods of the node, the device plugins, allocations and HTTP.
//
//   auto agent = TRY(Agent::create(loop, config, access));
//   loop.post([&] { agent->start(); });
//   ... another thread: loop.run() ...
//   agent->leave();                  // this thread: unregisters from kubelet
//   loop.stop();
//
// Built before the loop runs; everything else on the loop's thread unless stated otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/config.h"
#include "base/result.h"
#include "http/event_loop.h"
#include "kube/kubeconfig.h"

namespace tessera::agent {

class Agent {
 public:
  // `loop` must outlive it. Fails with kInvalid or kUnavailable if an address or the access cannot
  // be used.
  static Result<std::unique_ptr<Agent>> create(http::EventLoop& loop, Config config,
                                               kube::ClusterAccess access);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  // When the loop no longer runs.
  ~Agent();

  void start();
  // Unregisters from kubelet after the calls in flight are answered. Not on the loop's thread, and
  // while the loop runs.
  void leave();

  // The port of the HTTP server; for tests that let the system choose.
  [[nodiscard]] std::uint16_t port() const;
  // What is missing until pods can be served; empty when nothing is.
  [[nodiscard]] std::string not_ready() const;

 private:
  struct Impl;
  explicit Agent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The program: parses the command line, runs until a signal ends it, and returns the exit code.
int run(int argc, char** argv);

}  // namespace tessera::agent
