// gpu/reopen_pace.h
//
// Decides when to reopen the driver session because a GPU does not answer. Some GPUs come back only
// in a new session. But events of the other GPUs are lost between two sessions. So the intervals
// between attempts grow while a GPU does not come back. Does no I/O. Not thread-safe.
//
//   if (pace.due(silent, /*all=*/false, now - opened)) { close(); open(); }
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

  // `every` is the first interval. It doubles after each attempt without success, up to `at_most`.
  // `when_all` is the interval while no GPU answers.
  ReopenPace(Milliseconds every, Milliseconds at_most, Milliseconds when_all)
      : every_(every),
        at_most_(std::max(every, at_most)),
        when_all_(std::min(every, when_all)),
        pause_(every) {}

  // Returns whether to reopen a session that has been open for `open_for`. `silent` lists the GPUs
  // that do not answer, always in the same order. If the list differs from the previous call, the
  // intervals start again with the first one. `all` is true if no GPU answers.
  bool due(std::vector<std::string> silent, bool all, std::chrono::nanoseconds open_for) {
    if (silent != silent_) {
      silent_ = std::move(silent);
      pause_ = every_;
    }
    if (silent_.empty() || open_for < (all ? when_all_ : pause_)) {
      return false;
    }
    pause_ = std::min(pause_ * 2, at_most_);
    return true;
  }

 private:
  const Milliseconds every_;
  const Milliseconds at_most_;
  const Milliseconds when_all_;
  Milliseconds pause_;
  std::vector<std::string> silent_;
};

}  // namespace tessera::gpu
