// cli/savings/gpu_limits.h
//
// The GPUs in the limits of a pod, of any resource that `tessera savings` knows. Private to
// cli/savings.
#pragma once

#include <cstdint>

#include "alloc/pod.h"
#include "cli/savings/plan.h"

namespace tessera::cli {

// The GPU requests of a pod, as Kubernetes counts them.
struct GpuLimits {
  std::int64_t whole = 0;   // GPUs that could be shared
  std::int64_t vendor = 0;  // whole GPUs that Tessera cannot share
  std::int64_t mig = 0;
  std::int64_t sliced = 0;
  bool shares = false;         // requests memory or compute of GPUs from Tessera
  bool tessera_whole = false;  // requests whole GPUs from Tessera

  [[nodiscard]] bool any() const { return whole > 0 || vendor > 0 || mig > 0 || sliced > 0 || shares; }
};

GpuLimits limits_of(const alloc::PodSpec& pod, const SavingsRules& rules);

}  // namespace tessera::cli
