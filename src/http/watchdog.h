// http/watchdog.h
//
// Timeouts that are set often and expire rarely. Private to the .cc files of this folder.
//
// Each request sets several deadlines, so setting one must be cheap. All watchdogs of a loop share
// one timer. Moving a deadline to a later time does not touch the timer, so the timer may fire
// before the earliest deadline. When the timer fires, the watchdogs that are due expire, and the
// timer is armed for the next deadline.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "http/asio.h"

namespace tessera::http {

class Watchdog;

// The shared timer of a loop, owned by EventLoop::Impl. Used only on the loop's thread.
class Deadlines {
 public:
  explicit Deadlines(const Executor& executor) : timer_(executor) {}

 private:
  friend class Watchdog;

  void arm(SteadyTime at);
  void expire();

  SteadyTimer timer_;
  SteadyTime armed_for_ = SteadyTime::max();
  std::vector<Watchdog*> watchdogs_;
};

// One deadline, which can be set, moved and turned off.
class Watchdog {
 public:
  // `on_expired` runs on the loop once the deadline has passed, but never after off() or the
  // destructor. Any thread may construct a watchdog. set(), in() and off() must run on the loop's
  // thread, and so must the destructor of an armed watchdog.
  Watchdog(std::shared_ptr<Deadlines> deadlines, std::function<void()> on_expired)
      : deadlines_(std::move(deadlines)), on_expired_(std::move(on_expired)) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() { off(); }

  // Sets or moves the deadline.
  void set(SteadyTime at) {
    at_ = at;
    if (index_ == kOff) {
      index_ = deadlines_->watchdogs_.size();
      deadlines_->watchdogs_.push_back(this);
    }
    if (at < deadlines_->armed_for_) {
      deadlines_->arm(at);
    }
  }
  void in(std::chrono::nanoseconds delay) { set(std::chrono::steady_clock::now() + delay); }
  // Disarms the watchdog: no deadline until the next set().
  void off();

 private:
  friend class Deadlines;

  static constexpr std::size_t kOff = static_cast<std::size_t>(-1);

  std::shared_ptr<Deadlines> deadlines_;
  std::function<void()> on_expired_;
  SteadyTime at_ = SteadyTime::max();
  std::size_t index_ = kOff;  // in Deadlines::watchdogs_
};

}  // namespace tessera::http
