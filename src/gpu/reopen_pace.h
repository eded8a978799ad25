// gpu/reopen_pace.h
//
// Decides when to reopen the driver session because a GPU does not answer. Some GPUs come back only
// in a new session. But events of the other GPUs between two sessions are lost, so the attempts
// become less frequent while a GPU stays dead. Pure. Not thread-safe.
//
//   if (pace.due(silent, false, now - opened)) { close(); open(); }
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace tessera::gpu {

class ReopenPace {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // `every` is the first interval. It doubles after each attempt without success, up to `at_last`.
  // `when_all` is the interval while no GPU answers.
  ReopenPace(Milliseconds every, Milliseconds at_last, Milliseconds when_all)
      : every_(every),
        at_last_(std::max(every, at_last)),
        when_all_(std::min(every, when_all)),
        pause_(every) {}

  // Returns whether to reopen a session that has been open for `open_for`. `silent` lists what does
  // not answer, always in the same order.
  bool due(std::vector<std::string> silent, bool all, std::chrono::nanoseconds open_for) {
    if (silent != silent_) {
      silent_ = std::move(silent);
      pause_ = every_;
    }
    if (silent_.empty() || open_for < (all ? when_all_ : pause_)) {
      return false;
    }
    pause_ = std::min(pause_ * 2, at_last_);
    return true;
  }

 private:
  const Milliseconds every_;
  const Milliseconds at_last_;
  const Milliseconds when_all_;
  Milliseconds pause_;
  std::vector<std::string> silent_;
};

}  // namespace tessera::gpu
