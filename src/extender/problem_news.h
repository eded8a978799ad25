// extender/problem_news.h
//
// Decides which problems of the ledger to report: each problem once, again when its text changes,
// and again when it returns after it has ended. Not thread-safe.
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
  // When the amount of GPU memory of a node changes, kubelet and the inventory may show the new
  // amount about ten seconds apart. A mismatch that ends before this time is not reported.
  static constexpr std::chrono::seconds kCapacityMayDifferFor{30};

  // Returns the problems to report now, and remembers them as reported. Of each kind, the ledger
  // lists at most 100 problems, so further ones are only counted. Cheap if nothing changed since
  // the last call.
  [[nodiscard]] std::vector<alloc::Problem> take(const alloc::Ledger& ledger, Clock::Steady now);

 private:
  std::pair<std::uint64_t, std::uint64_t> seen_;  // sums of problem_total() and problem_count()
  std::set<std::string> reported_;                // texts of reported problems
  // Texts of capacity mismatches that are not reported yet, and when each was first seen.
  std::map<std::string, Clock::Steady> recent_;
};

// Returns the reason of the Event about a problem of this kind.
[[nodiscard]] std::string_view event_reason(alloc::ProblemKind kind);

}  // namespace tessera::extender
