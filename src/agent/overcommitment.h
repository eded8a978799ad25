// agent/overcommitment.h
//
// Whether a pod's record gives away what other pods of the node hold. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/node_pods.h"
#include "alloc/inventory.h"
#include "alloc/record.h"

namespace tessera::agent {

struct Neighbour {
  const NodePod* pod = nullptr;
  alloc::Record record{};  // what it has
};

// A record that gives away what others hold was not written by a scheduler that knew. Empty when there is
// room for the pod beside its neighbours, else who is in the way and what will help.
std::string overcommitment(const NodePod& pod, const alloc::Record& record,
                           const std::vector<Neighbour>& neighbours, const alloc::Inventory& inventory);

}  // namespace tessera::agent
