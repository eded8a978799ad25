// agent/agent.h
//
// All parts of a running agent, put together: driver, pods of the node, device plugins, books, HTTP.
//
//   auto agent = TRY(Agent::create(loop, config, access));
//   loop.post([&] { agent->start(); });
//   ... another thread: loop.run() ...
//   agent->leave();                  // this thread: kubelet sees us go
//   loop.stop();
//
// Built before the loop runs; everything else on its thread unless told otherwise.
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
  // `loop` must live longer. kInvalid or kUnavailable when an address or the access cannot be used.
  static Result<std::unique_ptr<Agent>> create(http::EventLoop& loop, Config config,
                                               kube::ClusterAccess access);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  // When the loop no longer runs.
  ~Agent();

  void start();
  // Not the loop's thread, while the loop runs: answers what kubelet has asked and ends the plugins.
  void leave();

  // Where HTTP is served; for tests that let the system choose.
  [[nodiscard]] std::uint16_t port() const;
  // What is missing until pods can be served; empty when nothing is.
  [[nodiscard]] std::string not_ready() const;

 private:
  struct Parts;
  explicit Agent(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// The program: parses the command line, runs until a signal ends it, and returns the exit code.
int run(int argc, char** argv);

}  // namespace tessera::agent
