// alloc/reason.h
//
// Why a node cannot take a pod, as one of a few phrases.
//
// kube-scheduler writes every distinct text into the pod, so a phrase is the same for all nodes that fail in
// the same way and holds numbers of the request only. What differs by node is told by explain.h.
#pragma once

#include <cstdint>
#include <string>

#include "alloc/request.h"
#include "alloc/units.h"

namespace tessera::alloc {

enum class Reason : std::uint8_t {
  kFits,
  kUnknownNode,  // nothing was heard of it yet
  kNoGpus,       // nothing to share
  kInventoryUnreadable,
  kUnitDiffers,
  kSecondPlugin,  // another device plugin gives out the same GPUs
  kOldPlugin,     // the request is more than a node without an agent can do
  kNoMps,
  kNoSuchModel,   // no GPU that the pod's annotations allow
  kGpusTooSmall,  // too few are so large, empty or not
  kTooFewGpus,
  kUnhealthy,  // would fit if all GPUs were well and empty, and those that are well would not do
  kNoGpuWithEnoughFree,
  kTooFewGpusWithEnoughFree,
  kTooFewWholeGpus,
  kContainersDoNotFit,  // each would, all together do not
  kTooLittleCpu,
  kTooLittleMemory,
};
inline constexpr std::size_t kReasons = 18;

// "no single GPU has 8GiB free".
std::string phrase(Reason reason, const Request& request, Unit unit, const ResourceNames& names);

// Whether evicting other pods could help; where it cannot, the node is no candidate for preemption.
bool eviction_may_help(Reason reason);

// Whether it may pass by itself: another watch can show a moment before ours that the node is there, or that
// its agent wrote an inventory in which it no longer stands. Not what only other hardware would end.
bool may_pass(Reason reason);

}  // namespace tessera::alloc
