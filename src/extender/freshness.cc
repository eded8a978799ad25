#include "extender/freshness.h"

#include "base/log.h"

namespace tessera::extender {

namespace {

constexpr std::chrono::milliseconds kBeat{500};

}  // namespace

void Freshness::start() {
  last_beat_ = clock_.now();
  last_beat_wall_ = clock_.wall();
  beat();
}

void Freshness::beat() {
  detect_pause();
  timer_ = loop_.after(kBeat, [this] { beat(); });
}

void Freshness::detect_pause() {
  const Clock::Steady now = clock_.now();
  const Clock::Wall wall = clock_.wall();
  if (now - last_beat_ > kLongestPause || wall - last_beat_wall_ > kLongestPause) {
    require_list("the process was stopped for a while");
  }
  last_beat_ = now;
  last_beat_wall_ = wall;
}

void Freshness::require_list(std::string_view reason) {
  // A list in progress does not count, not even the first one: it may have started before the event
  // that requires a list.
  log::info("listing pods again before the next bind", {{"reason", reason}});
  lists_wanted_ = pods_.counts().lists + 1;
  pods_.relist();
}

bool Freshness::current() {
  detect_pause();
  return !awaits_list();
}

}  // namespace tessera::extender
