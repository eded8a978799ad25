// gpu/reopen_pace.h
//
// When a session with the driver is given up for a new one because a GPU does not answer: some come back only
// in a new one. But what befalls the other GPUs between two sessions is not heard of, so one that stays dead
// costs a session ever more seldom. Pure, one thread.
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

  // `every`: at first, doubled up to `at_last` each time that brought nothing; `when_all`: where no GPU
  // answers.
  ReopenPace(Milliseconds every, Milliseconds at_last, Milliseconds when_all)
      : every_(every),
        at_last_(std::max(every, at_last)),
        when_all_(std::min(every, when_all)),
        pause_(every) {}

  // Whether a session that has been open for so long is to end. `silent`: what does not answer, in one order.
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
