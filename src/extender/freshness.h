// extender/freshness.h
//
// Whether the ledger is known to be current, so that GPUs may be given away by them.
//
// A watch that says nothing may be quiet or dead; which of the two cannot be told from it. For the replica
// that binds this does no harm: what it gave away it knows itself. One that begins to bind, because it took
// the lease or because it was stopped for a while (SIGSTOP, a paused virtual machine) and goes on, may not
// know what another one gave away meanwhile. It reads the pods anew first.
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
  // A process that did not get to run for so long counts as stopped.
  static constexpr std::chrono::seconds kLongestPause{3};

  // Both must outlive it.
  Freshness(http::EventLoop& loop, const Clock& clock, kube::Reflector& pods)
      : loop_(loop), clock_(clock), pods_(pods) {}
  Freshness(const Freshness&) = delete;
  Freshness& operator=(const Freshness&) = delete;

  void start();
  // The pods must be read anew before the next bind, by a list that begins after this call: one that is under
  // way begins again.
  void doubt(std::string_view why);
  // Asked before every bind; notices a pause of its own accord.
  [[nodiscard]] bool current();
  [[nodiscard]] bool in_doubt() const { return pods_.counts().lists < lists_wanted_; }

 private:
  void beat();
  void notice_pause();

  http::EventLoop& loop_;
  const Clock& clock_;
  kube::Reflector& pods_;
  std::uint64_t lists_wanted_ = 0;
  // Both clocks: the steady one stands still while a virtual machine is paused.
  Clock::Steady last_beat_{};
  Clock::Wall last_beat_wall_{};
  http::Timer timer_;
};

}  // namespace tessera::extender
