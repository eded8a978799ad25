// cli/cluster/pod_problems.h
//
// Finds what is wrong with the GPUs of a pod that has some: a GPU is unhealthy or gone, or the pod
// uses more memory than it requested.
#pragma once

#include <string>
#include <vector>

#include "alloc/ledger.h"
#include "cli/cluster/agents.h"

namespace tessera::cli {

struct PodProblem {
  enum class Kind { kUnhealthy, kLost, kMemoryExceeded };
  Kind kind{};
  std::string text;    // "GPU 3 is unhealthy: XID 79"
  std::string advice;  // what to do
};

// Returns the problems of a pod. Without `usage` of the pod's node, overuse of memory is not found.
std::vector<PodProblem> pod_problems(const alloc::Ledger& ledger, const alloc::PodHolding& holding,
                                     const Usage& usage);

// Returns "container main uses 4.0 GiB of GPU 3, but its share is 3.0 GiB".
std::string overuse_text(const MemoryOveruse& overuse);

// Advice about a container that uses too much memory.
inline constexpr const char* kOveruseAdvice =
    "other pods on that GPU can run out of memory; request more or use less";

}  // namespace tessera::cli
