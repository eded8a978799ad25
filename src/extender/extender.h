// extender/extender.h
//
// All parts of a running extender, put together: client, watches, state, election, routes.
//
//   Extender extender = ...
//   extender.start();                    // connects, watches, listens
//   ... loop.run() ...
//   extender.stop([&] { loop.stop(); });  // drains, hands the lease over
//
// Built before the loop runs, everything else on its thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "extender/config.h"
#include "http/event_loop.h"
#include "kube/kubeconfig.h"

namespace tessera::extender {

// Who this process is in the cluster; both empty outside of one.
struct OwnPod {
  std::string name;
  std::string namespace_name;
};

class Extender {
 public:
  // `loop` must live longer. kInvalid or kUnavailable when an address or the access cannot be used.
  static Result<std::unique_ptr<Extender>> create(http::EventLoop& loop, Config config,
                                                  kube::ClusterAccess access, OwnPod own_pod);
  Extender(const Extender&) = delete;
  Extender& operator=(const Extender&) = delete;
  ~Extender();

  void start();
  // Takes over what can change while running, and warns about the rest.
  void reload(const Config& next);
  // Answers what is under way, then lets another replica lead, then calls `done`.
  void stop(std::function<void()> done);

  // Where kube-scheduler calls; for tests that let the system choose.
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] bool ready() const;

 private:
  struct Parts;
  explicit Extender(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// The program: parses the command line, runs until a signal ends it, and returns the exit code.
int run(int argc, char** argv);

}  // namespace tessera::extender
