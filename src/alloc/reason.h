// alloc/reason.h
//
// Why a node cannot take a pod, as one of a few phrases.
//
// kube-scheduler writes every distinct text into the pod's condition. So a phrase is the same for
// all nodes that fail in the same way, and contains numbers of the request only. explain.h has the
// details of a node.
#pragma once

#include <cstdint>
#include <string>

#include "alloc/request.h"
#include "alloc/units.h"

namespace tessera::alloc {

enum class Reason : std::uint8_t {
  kFits,
  kUnknownNode,  // the watch has not shown the node yet
  kNoGpus,       // no GPUs to allocate
  kInventoryUnreadable,
  kUnitDiffers,
  kSecondPlugin,            // another device plugin allocates the same GPUs
  kAgentAway,               // the node's agent does not serve pods now
  kUnreadablePod,           // it is not known what a pod on the node holds
  kUnrecordedPod,           // a pod has started there, and it is not known which GPUs it has
  kOriginalPlugin,          // the original plugin of gpushare on the node cannot serve the request
  kOriginalTopologyPlugin,  // the original topology plugin on the node cannot serve the request
  kNoMps,
  kNoSuchModel,   // the pod's annotations allow no GPU of the node
  kGpusTooSmall,  // too few GPUs have as much memory as requested, free or not
  kTooFewGpus,
  kUnhealthy,  // the healthy GPUs would not suffice even without any pods
  kNoGpuWithEnoughFree,
  kTooFewGpusWithEnoughFree,
  kTooFewWholeGpus,
  kContainersDoNotFit,  // each container fits alone, but not all together
  kSearchEnded,         // the search for GPUs of several containers reached its limit
  kTooLittleCpu,
  kTooLittleMemory,
};
inline constexpr std::size_t kReasons = 23;

// Returns the phrase of a reason: "no single GPU has 8GiB free".
std::string phrase(Reason reason, const Request& request, Unit unit, const ResourceNames& names);

// Returns whether the pod might fit after other pods are evicted. If it returns false, the node is
// not a candidate for preemption.
bool eviction_may_help(Reason reason);

// Returns whether the reason may disappear without a change of hardware: after an eviction, or
// because the extender learns more about the node. For example, kube-scheduler's watch may show a
// new node or inventory a moment before the extender's watch does.
bool may_pass(Reason reason);

}  // namespace tessera::alloc
