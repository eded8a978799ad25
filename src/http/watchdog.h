// http/watchdog.h
//
// A deadline that is moved all the time and almost never met. For the .cc files of this folder.
//
// Each request moves its connection's deadline several times, so moving it must cost nothing: a timer that
// stands earlier than needed is left to ring, looks at the deadline, and goes to sleep again.
#pragma once

#include <functional>
#include <memory>

#include "http/asio.h"

namespace tessera::http {

class Watchdog {
 public:
  // `bite` runs on the loop when the deadline has passed. It is not called after the destructor.
  Watchdog(const Executor& executor, std::function<void()> bite)
      : state_(std::make_shared<State>(executor, std::move(bite))) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() {
    state_->bite = nullptr;
    state_->timer.cancel();
  }

  void set(SteadyTime at) {
    state_->at = at;
    if (at < state_->armed_for) {
      arm(state_);
    }
  }
  void in(std::chrono::nanoseconds delay) { set(std::chrono::steady_clock::now() + delay); }
  // Whatever is waited for now may take for ever.
  void off() { state_->at = SteadyTime::max(); }

 private:
  struct State {
    State(const Executor& executor, std::function<void()> what) : timer(executor), bite(std::move(what)) {}
    SteadyTimer timer;
    std::function<void()> bite;
    SteadyTime at = SteadyTime::max();
    SteadyTime armed_for = SteadyTime::max();
  };

  static void arm(const std::shared_ptr<State>& state) {
    state->armed_for = state->at;
    state->timer.expires_at(state->at);
    state->timer.async_wait([state](error_code error) {
      if (error || state->bite == nullptr) {
        return;  // moved to an earlier time, or gone
      }
      state->armed_for = SteadyTime::max();
      if (state->at == SteadyTime::max()) {
        return;
      }
      if (state->at > std::chrono::steady_clock::now()) {
        arm(state);
        return;
      }
      state->at = SteadyTime::max();
      const std::function<void()> bite = state->bite;
      bite();
    });
  }

  std::shared_ptr<State> state_;
};

}  // namespace tessera::http
