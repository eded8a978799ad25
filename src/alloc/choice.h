// alloc/choice.h
//
// A decision on its way into the books: which GPUs of one node a pod would get.
#pragma once

#include <cstdint>
#include <vector>

#include "alloc/node_state.h"

namespace tessera::alloc {

// How good a place is: larger is better, and only equally good places have equal scores. Only scores of one
// request under one policy compare.
using Score = std::int64_t;
inline constexpr Score kDoesNotFit = -1;

// A GPU, or a part of one, for a container.
struct SlotGrant {
  std::uint8_t container = 0;  // in Demand::containers
  std::uint8_t slot = 0;       // of the node
  bool whole = false;
  std::uint16_t core_percent = 0;
  std::uint32_t units = 0;

  friend bool operator==(const SlotGrant&, const SlotGrant&) = default;
};

struct Choice {
  NodeId node{};
  std::uint32_t layout_version = 0;  // slots mean what they meant then
  Score score = kDoesNotFit;
  GpuMask share_gpus = 0;
  GpuMask whole_gpus = 0;
  std::uint32_t ring_mbps = 0;        // of the whole GPUs, if there are several
  std::uint32_t ideal_ring_mbps = 0;  // of as many on the idle machine
  std::vector<SlotGrant> grants;      // by container, then slot

  friend bool operator==(const Choice&, const Choice&) = default;
};

}  // namespace tessera::alloc
