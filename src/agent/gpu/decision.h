// agent/gpu/decision.h
//
// Reads which GPUs a scheduler chose for a pod of this node, and checks that choice. Pure.
//
// The scheduler writes its choice into annotations of the pod (the record). Every client that may
// write pods can set these annotations, so the record is checked. It is valid only if it allocates
// to every container exactly what the container requests, on GPUs of this node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "alloc/inventory.h"
#include "alloc/pod.h"
#include "alloc/record.h"
#include "alloc/request.h"

namespace tessera::agent {

enum class Verdict : std::uint8_t {
  kDecided,    // `record` has the GPU shares of each container
  kUndecided,  // there is no record, and the node has more than one GPU
  kInvalid,    // the record is invalid
  kLostGpu,    // the record is valid except that it names a GPU which is not on this node
};

struct GpuDecision {
  Verdict verdict = Verdict::kUndecided;
  // The GPU shares of each container, with UUIDs as names of the GPUs. Empty unless the verdict is
  // kDecided or kLostGpu.
  alloc::Record record{};
  // The problem and what to do about it, without the pod's name; empty if the verdict is kDecided.
  std::string message{};
};

// Returns the decision for a pod. Uses tessera.io/allocation if it is valid, otherwise the
// annotations of the original schedulers. If the pod has neither and the node has exactly one GPU,
// allocates that GPU.
GpuDecision decide(const alloc::PodSpec& pod, const alloc::GpuRequest& request,
                   const alloc::Inventory& inventory);

// Returns the decision for a pod whose record is `record`: kDecided, or kLostGpu if the record names
// a GPU that is not on this node.
GpuDecision decide_by(alloc::Record record, const alloc::Inventory& inventory);

// The GPU shares of one pod of the node.
struct Holding {
  std::string pod;  // "ml/train-7"
  // Empty if the request is unknown. The shares of all containers in `record` are then added up.
  alloc::GpuRequest request{};
  alloc::Record record{};
};

// Checks that the GPUs of `pod` have room for it in addition to `neighbours`, the pods that already
// hold shares of these GPUs. Returns the problem and what to do about it; empty if the pod fits. A
// GPU can be overcommitted if two schedulers that do not know each other's pods use the node.
std::string overcommitment(const Holding& pod, const std::vector<Holding>& neighbours,
                           const alloc::Inventory& inventory);

}  // namespace tessera::agent
