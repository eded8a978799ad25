// http/watchdog.h
//
// Deadlines that are moved all the time and almost never met. For the .cc files of this folder.
//
// Each request moves several of them, so moving one must cost next to nothing: all watchdogs of a loop share
// one timer, which stands at the earliest deadline it was told of or before it. When it rings too early, it
// looks at what is due and goes to sleep again.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "http/asio.h"

namespace tessera::http {

class Watchdog;

// The one timer of a loop; EventLoop::Core has it. One thread.
class Deadlines {
 public:
  explicit Deadlines(const Executor& executor) : timer_(executor) {}

 private:
  friend class Watchdog;

  void arm(SteadyTime at);
  void ring();

  SteadyTimer timer_;
  SteadyTime armed_for_ = SteadyTime::max();
  std::vector<Watchdog*> watchdogs_;
};

class Watchdog {
 public:
  // `bite` runs on the loop once the deadline has passed, and not after off() or the destructor. Can be made
  // anywhere; set and switched off on the loop, and ended there too unless it is off.
  Watchdog(std::shared_ptr<Deadlines> deadlines, std::function<void()> bite)
      : deadlines_(std::move(deadlines)), bite_(std::move(bite)) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() { off(); }

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
  // Whatever is waited for now may take for ever.
  void off();

 private:
  friend class Deadlines;

  static constexpr std::size_t kOff = static_cast<std::size_t>(-1);

  std::shared_ptr<Deadlines> deadlines_;
  std::function<void()> bite_;
  SteadyTime at_ = SteadyTime::max();
  std::size_t index_ = kOff;  // in Deadlines::watchdogs_
};

}  // namespace tessera::http
