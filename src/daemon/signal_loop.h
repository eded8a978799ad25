// daemon/signal_loop.h
//
// The main thread of a daemon: it waits for signals while the event loop runs on a thread of its
// own.
//
//   SignalLoop signals = TRY(SignalLoop::create(SignalLoop::Reload::kNo));   // before any thread
//   http::EventLoop loop;
//   signals.run(loop, {.start = [&] { agent->start(); },
//                      .stop = [&] { agent->leave(); loop.stop(); }});
#pragma once

#include <functional>
#include <utility>

#include "base/result.h"
#include "base/signals.h"
#include "http/event_loop.h"

namespace tessera::daemon {

class SignalLoop {
 public:
  enum class Reload { kNo, kOnHangup };

  // Blocks SIGTERM and SIGINT, and SIGHUP if the daemon reloads its configuration. Threads inherit
  // the blocked signals, so call it before the first thread starts.
  static Result<SignalLoop> create(Reload reload);

  struct Hooks {
    // Called once, on the event loop's thread.
    std::function<void()> start;
    // Called after SIGTERM or SIGINT, on the thread of run(). Must make the event loop stop.
    std::function<void()> stop;
    // Called after SIGHUP, on the thread of run().
    std::function<void()> reload = {};
  };
  // Runs `loop` on a thread of its own. Returns when the loop has stopped.
  void run(http::EventLoop& loop, const Hooks& hooks);

 private:
  explicit SignalLoop(SignalWatch signals) : signals_(std::move(signals)) {}
  void wait_for_stop(const Hooks& hooks);

  SignalWatch signals_;
};

}  // namespace tessera::daemon
