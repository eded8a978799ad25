// agent/gpu/decision.h
//
// What was decided for a pod of this node, and whether it can be believed. Pure.
//
// A record is text in an annotation, and anybody who may write pods may have written it: it counts only when
// it gives every container exactly what it asked for, of GPUs that are here.
#pragma once

#include <cstdint>
#include <string>

#include "alloc/inventory.h"
#include "alloc/pod.h"
#include "alloc/record.h"
#include "alloc/request.h"

namespace tessera::agent {

enum class Verdict : std::uint8_t {
  kDecided,    // record holds what each container gets
  kUndecided,  // nobody has said, and there is more than one GPU to choose from
  kBroken,     // somebody has said what cannot be
  kLostGpu,    // it was right once: the GPU is not here any more
};

struct GpuDecision {
  Verdict verdict = Verdict::kUndecided;
  // GPUs by UUID; empty unless decided, or decided on a GPU that is lost.
  alloc::Record record{};
  // What is wrong and what to do, without the pod's name; empty when decided.
  std::string why{};
};

// tessera.io/allocation if it is right, else what old schedulers wrote, else, where there is exactly one GPU,
// that one.
GpuDecision decide(const alloc::PodSpec& pod, const alloc::GpuRequest& request, const alloc::Inventory& inventory);

}  // namespace tessera::agent
