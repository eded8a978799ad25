// agent/gpu/decision.h
//
// What was decided for a pod of this node, and whether the decision is valid. Pure.
//
// A record is text in an annotation, and any client that may write pods may have written it. It
// counts only if it gives every container exactly what it requests, on GPUs of this node.
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
  kDecided,    // `record` holds what each container gets
  kUndecided,  // there is no record, and more than one GPU to choose from
  kInvalid,    // the record is invalid
  kLostGpu,    // the record was valid once: the GPU is not here any more
};

struct GpuDecision {
  Verdict verdict = Verdict::kUndecided;
  // GPUs by UUID; empty unless the verdict is kDecided or kLostGpu.
  alloc::Record record{};
  // What is wrong and what to do, without the pod's name; empty when decided.
  std::string message{};
};

// Takes tessera.io/allocation if it is valid, else the annotations of the original schedulers,
// else, if there is exactly one GPU, that one.
GpuDecision decide(const alloc::PodSpec& pod, const alloc::GpuRequest& request,
                   const alloc::Inventory& inventory);

// A pod of the node and what it has.
struct Holding {
  std::string pod;  // "ml/train-7"
  alloc::GpuRequest request{};
  alloc::Record record{};
};

// A record that allocates what other pods hold was not written by a scheduler that knew about them.
// Returns who is in the way and what will help; empty when there is room for the pod next to its
// neighbours.
std::string overcommitment(const Holding& pod, const std::vector<Holding>& neighbours,
                           const alloc::Inventory& inventory);

}  // namespace tessera::agent
