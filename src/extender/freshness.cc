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
  notice_pause();
  timer_ = loop_.after(kBeat, [this] { beat(); });
}

void Freshness::notice_pause() {
  const Clock::Steady now = clock_.now();
  const Clock::Wall wall = clock_.wall();
  if (now - last_beat_ > kLongestPause || wall - last_beat_wall_ > kLongestPause) {
    doubt("this process was stopped for a while");
  }
  last_beat_ = now;
  last_beat_wall_ = wall;
}

void Freshness::doubt(std::string_view why) {
  // A first list that is under way counts no more than a watch: it may have begun before what is doubted.
  log::info("reading the pods anew before the next bind", {{"why", why}});
  lists_wanted_ = pods_.counts().lists + 1;
  pods_.relist();
}

bool Freshness::current() {
  notice_pause();
  return !in_doubt();
}

}  // namespace tessera::extender
