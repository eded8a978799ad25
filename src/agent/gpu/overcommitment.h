// agent/gpu/overcommitment.h
//
// Whether a pod's record gives away what other pods of the node hold. Pure.
#pragma once

#include <string>
#include <vector>

#include "alloc/inventory.h"
#include "alloc/record.h"
#include "alloc/request.h"

namespace tessera::agent {

// A pod of the node and what it has.
struct Holding {
  std::string pod;  // "ml/train-7"
  alloc::GpuRequest request{};
  alloc::Record record{};
};

// A record that gives away what others hold was not written by a scheduler that knew. Empty when there is
// room for the pod beside its neighbours, else who is in the way and what will help.
std::string overcommitment(const Holding& pod, const std::vector<Holding>& neighbours,
                           const alloc::Inventory& inventory);

}  // namespace tessera::agent
