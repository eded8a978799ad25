// extender/freshness.h
//
// Decides whether the ledger is current enough to bind pods.
//
// A watch without events may be idle or dead. While this replica is the only one that binds, a dead
// watch does no harm: the ledger has everything that the replica allocated itself. In two cases
// another replica may have allocated GPUs that the ledger does not have: when this replica takes
// the Lease, and when it continues after it was stopped (SIGSTOP, a paused virtual machine). In
// these cases this replica lists the pods again before its next bind.
//
// Used only on the event loop's thread.
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
  // A process counts as stopped if it was paused for longer than this.
  static constexpr std::chrono::seconds kLongestPause{3};

  // All arguments must outlive this object.
  Freshness(http::EventLoop& loop, const Clock& clock, kube::Reflector& pods)
      : loop_(loop), clock_(clock), pods_(pods) {}
  Freshness(const Freshness&) = delete;
  Freshness& operator=(const Freshness&) = delete;

  void start();
  // Lists the pods again. Binds are not allowed until that list is complete. If a list is in
  // progress, it is started again, because its result may be too old. `reason` is logged.
  void require_list(std::string_view reason);
  // Returns whether binds are allowed. Also detects a pause, so call it before every bind.
  [[nodiscard]] bool current();
  // Returns whether a required list is not complete yet.
  [[nodiscard]] bool awaits_list() const { return pods_.counts().lists < lists_wanted_; }

 private:
  void beat();  // calls detect_pause() periodically
  void detect_pause();

  http::EventLoop& loop_;
  const Clock& clock_;
  kube::Reflector& pods_;
  std::uint64_t lists_wanted_ = 0;  // binds wait until pods_ has completed this many lists
  // Both clocks are needed: the steady clock stands still while a virtual machine is paused.
  Clock::Steady last_beat_{};
  Clock::Wall last_beat_wall_{};
  http::Timer timer_;
};

}  // namespace tessera::extender
