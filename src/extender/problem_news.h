// extender/problem_news.h
//
// Which of the problems in the ledger is to be told now: each once, again when it says something else, and
// again when it had ended and came back. One thread.
//
//   for (const alloc::Problem& problem : news.take(ledger, clock.now())) { log it, write an Event }
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alloc/ledger.h"
#include "alloc/problem.h"
#include "base/clock.h"

namespace tessera::extender {

class ProblemNews {
 public:
  // Kubelet reports a new amount of GPU memory up to some ten seconds after the inventory has it, or before:
  // what differs for shorter than this is no problem.
  static constexpr std::chrono::seconds kCapacityMayDifferFor{30};

  // What was not told yet; cheap when nothing has changed since the last call. At most 100 of a kind, the
  // ledger's counts tell the rest.
  [[nodiscard]] std::vector<alloc::Problem> take(const alloc::Ledger& ledger, Clock::Steady now);

 private:
  std::pair<std::uint64_t, std::uint64_t> seen_;  // sums of the ledger's totals and counts
  std::set<std::string> told_;                    // texts
  std::map<std::string, Clock::Steady> young_;    // texts of those that may pass, and since when
};

// The reason of the Event about it.
[[nodiscard]] std::string_view event_reason(alloc::ProblemKind kind);

}  // namespace tessera::extender
