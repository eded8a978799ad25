// extender/extender.h
//
// All parts of a running extender: API client, watches, ledger, leadership, binder, HTTP routes.
//
//   std::unique_ptr<Extender> extender = TRY(Extender::create(loop, config, access, own_pod));
//   loop.post([&] { extender->start(); });
//   ... loop.run() ...
//   extender->stop([&] { loop.stop(); });  // finishes calls in flight, then releases the Lease
//
// Create it before the loop runs. Call everything else on the loop's thread.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "extender/config.h"
#include "http/event_loop.h"
#include "kube/kubeconfig.h"

namespace tessera::extender {

class Extender {
 public:
  // `loop` must outlive the extender. Returns kInvalid or kUnavailable if the extender cannot
  // listen on its address or cannot use `access`.
  static Result<std::unique_ptr<Extender>> create(http::EventLoop& loop, Config config,
                                                  kube::ClusterAccess access, OwnPod own_pod);
  Extender(const Extender&) = delete;
  Extender& operator=(const Extender&) = delete;
  ~Extender();

  void start();
  // Applies the settings that may change while the extender runs, and warns about the others.
  void reload(const Config& next);
  // Answers the calls in flight, waits for the last write, releases the Lease, then calls `done`.
  void stop(std::function<void()> done);

  // Returns the port that kube-scheduler calls. For tests that let the system choose it.
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] bool ready() const;

 private:
  struct Impl;
  explicit Extender(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Runs the program: parses the command line, serves until a signal, and returns the exit code.
int run(int argc, char** argv);

}  // namespace tessera::extender
