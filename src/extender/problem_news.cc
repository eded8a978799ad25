#include "extender/problem_news.h"

namespace tessera::extender {

std::vector<alloc::Problem> ProblemNews::take(const alloc::Ledger& ledger, Clock::Steady now) {
  // Compare totals and current counts: a problem that ended and returned has changed only the
  // totals, one that only ended has changed only the counts.
  std::pair<std::uint64_t, std::uint64_t> seen;
  for (std::size_t kind = 0; kind < alloc::kProblemKinds; ++kind) {
    seen.first += ledger.problem_total(static_cast<alloc::ProblemKind>(kind));
    seen.second += ledger.problem_count(static_cast<alloc::ProblemKind>(kind));
  }
  if (std::exchange(seen_, seen) == seen && recent_.empty()) {
    return {};
  }
  std::vector<alloc::Problem> fresh;
  std::set<std::string> reported;
  std::map<std::string, Clock::Steady> recent;
  std::vector<alloc::Problem> problems = ledger.problems();
  // While pods hold shares of a removed GPU, kubelet still counts its memory.
  std::set<std::string> lost_gpus;  // nodes
  for (const alloc::Problem& problem : problems) {
    if (problem.kind == alloc::ProblemKind::kLostGpu) {
      lost_gpus.insert(problem.node);
    }
  }
  for (alloc::Problem& problem : problems) {
    if (problem.kind == alloc::ProblemKind::kCapacityDiffers && lost_gpus.contains(problem.node)) {
      continue;
    }
    if (reported_.contains(problem.text)) {
      reported.insert(problem.text);
      continue;
    }
    if (problem.kind == alloc::ProblemKind::kCapacityDiffers) {
      const auto known = recent_.find(problem.text);
      const Clock::Steady since = known == recent_.end() ? now : known->second;
      if (now - since < kCapacityMayDifferFor) {
        recent.emplace(problem.text, since);
        continue;
      }
    }
    reported.insert(problem.text);
    fresh.push_back(std::move(problem));
  }
  reported_ = std::move(reported);
  recent_ = std::move(recent);
  return fresh;
}

std::string_view event_reason(alloc::ProblemKind kind) {
  switch (kind) {
    case alloc::ProblemKind::kSecondPlugin:
      return "OtherDevicePlugin";
    case alloc::ProblemKind::kCapacityDiffers:
      return "GpuCapacityMismatch";
    default:
      return "GpuStateInconsistent";
  }
}

}  // namespace tessera::extender
