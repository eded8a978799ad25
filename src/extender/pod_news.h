// extender/pod_news.h
//
// Decides which Events about unbound pods to record. kube-scheduler tries a pod again after every
// change in the cluster that might help, several times a second in a busy cluster, and each try
// would otherwise be an Event. Pure: the caller passes the time. Not thread-safe.
//
//   if (news.is_unavailable_due(pod.uid, summary.main_reason, now)) { record GpuUnavailable }
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"

namespace tessera::extender {

class PodNews {
 public:
  // The Event is repeated after this time if the reason is the same. It must be shorter than the
  // time for which API servers keep Events (an hour).
  static constexpr std::chrono::minutes kRepeatAfter{5};
  // A different reason is reported immediately, but at most once in this time.
  static constexpr std::chrono::seconds kChangeAfter{10};
  // The most pods to remember. Beyond that, an Event may be repeated early.
  static constexpr std::size_t kMostPods = 8192;

  // Returns whether to record now that no node fits because of `reason`, and remembers it as
  // recorded.
  [[nodiscard]] bool is_unavailable_due(std::string_view uid, std::string_view reason, Clock::Steady now);

  // Returns true once for each pod: whether to record that its request mixes whole and shared GPUs.
  [[nodiscard]] bool is_mixed_due(std::string_view uid, Clock::Steady now);

 private:
  struct Known {
    std::size_t reason = 0;                      // hash of the last recorded reason
    std::optional<Clock::Steady> unavailable{};  // when it was recorded
    bool mixed = false;
    Clock::Steady seen;
  };

  Known& entry(std::string_view uid, Clock::Steady now);

  std::unordered_map<std::string, Known> pods_;  // by UID
};

}  // namespace tessera::extender
