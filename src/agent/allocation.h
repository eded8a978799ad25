// agent/allocation.h
//
// What one container of this node was given: for /allocations, metrics and whoever maps processes to pods.
// A value; the books that make it are in allocations.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/pod_resources.h"
#include "alloc/record.h"

namespace tessera::agent {

struct Allocation {
  PodName pod;
  std::string pod_uid;
  std::string container;
  // What it sees of which GPU, by UUID. Empty when it was given nothing ("void").
  std::vector<alloc::Grant> grants{};
  // Resource -> the IDs that kubelet took for it, sorted. They are of the same GPUs as `grants` unless
  // kubelet chose on its own (it reuses the IDs of init containers at random).
  std::map<std::string, std::vector<std::string>> ids{};
  // Why it is not allowed to start at the moment; empty when it is.
  std::string held{};

  friend bool operator==(const Allocation&, const Allocation&) = default;
};

}  // namespace tessera::agent
