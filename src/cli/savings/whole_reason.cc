// The reasons for which a pod keeps its whole GPUs, in words.
#include <fmt/format.h>

#include "cli/savings/plan.h"

namespace tessera::cli {

std::string whole_text(Whole why, const SavingsRules& rules) {
  switch (why) {
    case Whole::kSeveralGpus:
      return "requests more than one GPU";
    case Whole::kOtherVendor:
      return fmt::format("holds GPUs that Tessera cannot share ({})",
                         fmt::join(rules.unshared_resources, ", "));
    case Whole::kExcluded:
      return "is excluded by --namespace, --exclude-namespace or --selector";
    case Whole::kUnknownModel:
      return "is on a node with several GPU models, and it is not known which GPU it holds";
    case Whole::kUnknownGpuMemory:
      return "is on a GPU whose memory is unknown; set --gpu-memory";
    case Whole::kTooYoung:
      return fmt::format("is younger than {} h, so its peak may be still to come",
                         (rules.min_age_s + 3599) / 3600);
    case Whole::kNoMemoryMeasured:
      return "has no measurement of its GPU memory";
    case Whole::kNoUtilizationMeasured:
      return "has no measurement of its utilization (see --ignore-utilization)";
    case Whole::kTooBusy:
      return fmt::format("uses more than {:g}% of its GPU's time", rules.busiest_share());
    case Whole::kTooLarge:
      return "needs all of its GPU's memory, with headroom";
    case Whole::kNoRoom:
      break;
  }
  return "could share, but no node that it may use has room (GPU, CPU or memory)";
}

std::string_view to_string(Whole why) {
  switch (why) {
    case Whole::kSeveralGpus:
      return "several_gpus";
    case Whole::kOtherVendor:
      return "other_vendor";
    case Whole::kExcluded:
      return "excluded";
    case Whole::kUnknownModel:
      return "unknown_model";
    case Whole::kUnknownGpuMemory:
      return "unknown_gpu_memory";
    case Whole::kTooYoung:
      return "too_young";
    case Whole::kNoMemoryMeasured:
      return "no_memory_measured";
    case Whole::kNoUtilizationMeasured:
      return "no_utilization_measured";
    case Whole::kTooBusy:
      return "too_busy";
    case Whole::kTooLarge:
      return "too_large";
    case Whole::kNoRoom:
      break;
  }
  return "no_room";
}

}  // namespace tessera::cli
