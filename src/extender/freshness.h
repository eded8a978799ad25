// extender/freshness.h
//
// Knows whether the ledger is current, so that the extender may allocate GPUs by it.
//
// A silent watch may be idle or dead. That does not matter to the replica that binds, because it
// knows what it allocated itself. A replica that starts to bind, because it took the Lease or
// because it was stopped for a while (SIGSTOP, a paused virtual machine), may not know what another
// replica allocated meanwhile. It lists the pods again first.
//
// On the event loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "http/event_loop.h"
#include "kube/reflector.h"

namespace tessera::extender {

class Freshness {
 public:
  // A process that did not run for longer than this counts as stopped.
  static constexpr std::chrono::seconds kLongestPause{3};

  // All arguments must outlive this object.
  Freshness(http::EventLoop& loop, const Clock& clock, kube::Reflector& pods)
      : loop_(loop), clock_(clock), pods_(pods) {}
  Freshness(const Freshness&) = delete;
  Freshness& operator=(const Freshness&) = delete;

  void start();
  // Requires a new list of the pods before the next bind. The list must start after this call; one
  // in progress starts again.
  void doubt(std::string_view reason);
  // Returns whether binds are allowed. Also detects a pause, so call it before every bind.
  [[nodiscard]] bool current();
  [[nodiscard]] bool in_doubt() const { return pods_.counts().lists < lists_wanted_; }

 private:
  void beat();
  void detect_pause();

  http::EventLoop& loop_;
  const Clock& clock_;
  kube::Reflector& pods_;
  std::uint64_t lists_wanted_ = 0;
  // Both clocks are needed: the steady clock stands still while a virtual machine is paused.
  Clock::Steady last_beat_{};
  Clock::Wall last_beat_wall_{};
  http::Timer timer_;
};

}  // namespace tessera::extender
