#include "http/watchdog.h"

#include <algorithm>

namespace tessera::http {

void Deadlines::arm(SteadyTime at) {
  armed_for_ = at;
  timer_.expires_at(at);
  timer_.async_wait([this](error_code error) {
    if (!error) {
      expire();
    }
  });
}

void Deadlines::expire() {
  armed_for_ = SteadyTime::max();
  const SteadyTime now = std::chrono::steady_clock::now();
  SteadyTime next = SteadyTime::max();
  for (std::size_t i = 0; i < watchdogs_.size();) {
    Watchdog& watchdog = *watchdogs_[i];
    if (watchdog.at_ > now) {
      next = std::min(next, watchdog.at_);
      ++i;
      continue;
    }
    watchdog.off();
    const std::function<void()> on_expired = watchdog.on_expired_;
    on_expired();
    // The callback may have destroyed, armed or disarmed any watchdog, so start over.
    next = SteadyTime::max();
    i = 0;
  }
  if (next < armed_for_) {
    arm(next);
  }
}

void Watchdog::off() {
  if (index_ == kOff) {
    return;
  }
  std::vector<Watchdog*>& all = deadlines_->watchdogs_;
  all[index_] = all.back();
  all[index_]->index_ = index_;
  all.pop_back();
  index_ = kOff;
}

}  // namespace tessera::http
