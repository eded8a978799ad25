// alloc/choice.h
//
// A decision on its way into the ledger: which GPUs of one node a pod would get.
#pragma once

#include <cstdint>

#include "alloc/node_state.h"
#include "alloc/record.h"

namespace tessera::alloc {

// How good a place is: larger is better, and only equally good places have equal scores. Only scores of one
// request under one policy compare.
using Score = std::int64_t;
inline constexpr Score kDoesNotFit = -1;

struct Choice {
  NodeId node{};
  std::uint32_t layout_version = 0;  // slots mean what they meant then
  Score score = kDoesNotFit;
  GpuMask share_gpus = 0;
  GpuMask whole_gpus = 0;
  std::uint32_t ring_mbps = 0;        // of the whole GPUs, if there are several
  std::uint32_t ideal_ring_mbps = 0;  // of as many on the idle machine
  // What each container gets, in the order of the request. The shares of one container are ordered by slot.
  Record record;

  friend bool operator==(const Choice&, const Choice&) = default;
};

}  // namespace tessera::alloc
