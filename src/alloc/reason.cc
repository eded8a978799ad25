#include "alloc/reason.h"

#include <fmt/core.h>

namespace tessera::alloc {

namespace {

// "8GiB", or "8GiB and 30% compute".
std::string share_text(const SharePart& share, Unit unit) {
  std::string text = unit.amount(share.units);
  if (share.core_percent > 0) {
    text += fmt::format(" and {}% compute", share.core_percent);
  }
  return text;
}

}  // namespace

std::string phrase(Reason reason, const Request& request, Unit unit, const ResourceNames& names) {
  const Shape& shape = request.shape;
  switch (reason) {
    case Reason::kFits:
      return "fits";
    case Reason::kUnknownNode:
      return "node is not known to Tessera yet";
    case Reason::kNoGpus:
      return "node has no GPUs to share";
    case Reason::kInventoryUnreadable:
      return "node's GPU inventory cannot be read";
    case Reason::kUnitDiffers:
      return fmt::format("node does not use the cluster's GPU memory unit ({})", unit.text());
    case Reason::kSecondPlugin:
      return "another device plugin allocates the same GPUs";
    case Reason::kAgentAway:
      return "node's GPU agent is stopped or restarting";
    case Reason::kUnreadablePod:
      return "a pod on the node cannot be read";
    case Reason::kUnrecordedPod:
      return "a running pod has no valid GPU record (run tessera check)";
    case Reason::kOriginalPlugin:
      return "node runs the original device plugin, which serves only one container's share of one GPU";
    case Reason::kOriginalTopologyPlugin:
      return "node runs the original topology plugin, which serves only one container's whole GPUs";
    case Reason::kNoMps:
      return fmt::format("{} needs a node with MPS", names.core_percent());
    case Reason::kNoSuchModel:
      return "the pod's annotations allow none of the node's GPUs";
    case Reason::kGpusTooSmall:
      return shape.share.gpus > 1 ? fmt::format("fewer than {} GPUs are as large as {}", shape.share.gpus,
                                                unit.amount(shape.share.units))
                                  : fmt::format("no GPU is as large as {}", unit.amount(shape.share.units));
    case Reason::kTooFewGpus:
      return fmt::format("fewer than {} GPUs", shape.whole + shape.share.gpus);
    case Reason::kUnhealthy:
      return "free GPUs are unhealthy";
    case Reason::kNoGpuWithEnoughFree:
      return fmt::format("no single GPU has {} free", share_text(shape.share, unit));
    case Reason::kTooFewGpusWithEnoughFree:
      return fmt::format("fewer than {} GPUs have {} free each", shape.share.gpus,
                         share_text(shape.share, unit));
    case Reason::kTooFewWholeGpus:
      return shape.whole == 1 ? "no GPU is wholly free"
                              : fmt::format("fewer than {} GPUs are wholly free", shape.whole);
    case Reason::kContainersDoNotFit:
      return "the containers do not all fit on the free GPUs";
    case Reason::kSearchEnded:
      return fmt::format("the pod has too many GPU containers to find a GPU for each ({}: per-container)",
                         key::kPlacement);
    case Reason::kTooLittleCpu:
      return "too little CPU";
    case Reason::kTooLittleMemory:
      return "too little memory";
  }
  return "does not fit";
}

bool eviction_may_help(Reason reason) {
  switch (reason) {
    case Reason::kNoGpuWithEnoughFree:
    case Reason::kTooFewGpusWithEnoughFree:
    case Reason::kTooFewWholeGpus:
    case Reason::kContainersDoNotFit:
    case Reason::kTooLittleCpu:
    case Reason::kTooLittleMemory:
      return true;
    default:
      return false;
  }
}

bool may_pass(Reason reason) {
  switch (reason) {
    case Reason::kUnknownNode:
    case Reason::kNoGpus:
    case Reason::kInventoryUnreadable:
    case Reason::kUnitDiffers:
    case Reason::kSecondPlugin:
    case Reason::kAgentAway:
    case Reason::kUnreadablePod:
    case Reason::kUnrecordedPod:
    case Reason::kOriginalPlugin:
    case Reason::kOriginalTopologyPlugin:
    case Reason::kNoMps:
    case Reason::kUnhealthy:
      return true;
    default:
      return eviction_may_help(reason);
  }
}

}  // namespace tessera::alloc
