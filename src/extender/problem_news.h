// extender/problem_news.h
//
// Decides which problems of the ledger to report now: each one once, again when its text changes,
// and again when it returns after it had ended. Not thread-safe.
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
  // kubelet may report a new amount of GPU memory about ten seconds before or after the inventory
  // has it. A shorter mismatch than this is not a problem.
  static constexpr std::chrono::seconds kCapacityMayDifferFor{30};

  // Returns the problems that have not been reported yet, at most 100 of each kind; the counts of
  // the ledger include the rest. Cheap if nothing has changed since the last call.
  [[nodiscard]] std::vector<alloc::Problem> take(const alloc::Ledger& ledger, Clock::Steady now);

 private:
  std::pair<std::uint64_t, std::uint64_t> seen_;  // sums of the ledger's totals and counts
  std::set<std::string> reported_;                // texts
  std::map<std::string, Clock::Steady> recent_;   // texts that may still disappear, and since when
};

// Returns the reason of the Event about it.
[[nodiscard]] std::string_view event_reason(alloc::ProblemKind kind);

}  // namespace tessera::extender
