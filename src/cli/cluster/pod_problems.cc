#include "cli/cluster/pod_problems.h"

#include <fmt/core.h>

#include <set>

#include "base/strings.h"

namespace tessera::cli {

namespace {

constexpr const char* kPlaceAgain = "delete the pod so that it is placed on another GPU";

std::string memory_text(double mib) {
  return mib >= 1024 ? fmt::format("{:.1f} GiB", mib / 1024) : fmt::format("{:.0f} MiB", mib);
}

}  // namespace

std::string overuse_text(const MemoryOveruse& overuse) {
  const std::string who = overuse.container.empty() ? "a container" : "container " + overuse.container;
  const std::string used =
      fmt::format("{} uses {} of GPU {}", who, memory_text(overuse.used_mib), overuse.gpu);
  return overuse.allowed_mib > 0
             ? fmt::format("{}, but its share is {}", used, memory_text(overuse.allowed_mib))
             : used + ", which is not allocated to it";
}

std::vector<PodProblem> pod_problems(const alloc::Ledger& ledger, const alloc::PodHolding& holding,
                                     const Usage& usage) {
  std::vector<PodProblem> problems;
  std::set<int> unhealthy;  // a pod may hold several shares of one GPU
  for (const alloc::HeldShare& held : holding.shares) {
    if (held.slot < 0) {
      problems.push_back({.kind = PodProblem::Kind::kLost,
                          .text = fmt::format("GPU {} is not in node {} any more", in_quotes(held.share.gpu),
                                              ledger.node_name(holding.node)),
                          .advice = kPlaceAgain});
      continue;
    }
    const auto slot = static_cast<unsigned>(held.slot);
    const std::string_view reason = ledger.unhealthy(holding.node, slot);
    if (!reason.empty() && unhealthy.insert(held.slot).second) {
      problems.push_back(
          {.kind = PodProblem::Kind::kUnhealthy,
           .text = fmt::format("GPU {} is unhealthy: {}", ledger.gpus(holding.node)[slot].index, reason),
           .advice = kPlaceAgain});
    }
  }
  if (const auto found = usage.exceeded.find(holding.pod.text()); found != usage.exceeded.end()) {
    for (const MemoryOveruse& overuse : found->second) {
      problems.push_back({.kind = PodProblem::Kind::kMemoryExceeded,
                          .text = overuse_text(overuse),
                          .advice = kOveruseAdvice});
    }
  }
  return problems;
}

}  // namespace tessera::cli
