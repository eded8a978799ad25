// agent/agent.h
//
// A running agent. It owns the GPU driver, the watch on the pods of the node, the device plugins,
// the allocations and the HTTP server.
//
//   auto agent = TRY(Agent::create(loop, config, access));
//   loop.post([&] { agent->start(); });
//   ... another thread: loop.run() ...
//   agent->drain();                  // this thread: lets the scheduler stop binding pods here
//   agent->leave();                  // this thread: unregisters from kubelet
//   loop.stop();
//
// Create it before the loop runs. All other calls are made on the loop's thread unless stated
// otherwise.
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
  // `loop` must outlive the agent. Fails if the credentials in `access` cannot be used, with
  // kInvalid if the listen address is invalid, and with kUnavailable if the port is taken.
  static Result<std::unique_ptr<Agent>> create(http::EventLoop& loop, Config config,
                                               kube::ClusterAccess access);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  // Call it after the loop has stopped.
  ~Agent();

  void start();
  // Waits until the extender binds no more pods to this node and kubelet has admitted all bound pods, but
  // at most for Config::drain_timeout. Call it before leave(), from another thread while the loop runs.
  void drain();
  // Answers kubelet's calls in flight and then unregisters from kubelet. Call it from another
  // thread while the loop still runs: the loop answers the calls.
  void leave();

  // The port of the HTTP server, for tests that let the system choose it.
  [[nodiscard]] std::uint16_t port() const;
  // Returns why the agent cannot serve pods yet; empty if it is ready.
  [[nodiscard]] std::string not_ready() const;

 private:
  struct Impl;
  explicit Agent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The program: parses the command line, runs until a signal ends it, and returns the exit code.
int run(int argc, char** argv);

}  // namespace tessera::agent
