#include "extender/pod_news.h"

#include <functional>
#include <utility>

namespace tessera::extender {

PodNews::Known& PodNews::entry(std::string_view uid, Clock::Steady now) {
  std::string key(uid);
  if (pods_.size() >= kMostPods && !pods_.contains(key)) {
    std::erase_if(pods_, [&](const auto& pod) { return now - pod.second.seen > kRepeatAfter; });
    if (pods_.size() >= kMostPods) {
      pods_.clear();  // all are recent; a few Events are repeated
    }
  }
  Known& known = pods_[std::move(key)];
  known.seen = now;
  return known;
}

bool PodNews::is_unavailable_due(std::string_view uid, std::string_view reason, Clock::Steady now) {
  Known& known = entry(uid, now);
  const std::size_t hash = std::hash<std::string_view>()(reason);
  if (known.unavailable) {
    const auto passed = now - *known.unavailable;
    if (known.reason == hash ? passed < kRepeatAfter : passed < kChangeAfter) {
      return false;
    }
  }
  known.reason = hash;
  known.unavailable = now;
  return true;
}

bool PodNews::is_mixed_due(std::string_view uid, Clock::Steady now) {
  return !std::exchange(entry(uid, now).mixed, true);
}

}  // namespace tessera::extender
