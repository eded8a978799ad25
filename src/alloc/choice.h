// alloc/choice.h
//
// The node and GPUs that a policy chose for a request.
#pragma once

#include <cstdint>

#include "alloc/node_state.h"
#include "alloc/record.h"

namespace tessera::alloc {

// How good a choice is; larger is better. Only equally good choices have equal scores. Compare only
// scores of the same request under the same policy.
using Score = std::int64_t;
inline constexpr Score kDoesNotFit = -1;

struct Choice {
  NodeId node{};
  std::uint32_t layout_version = 0;  // NodeStates::layout_version of the slots in the masks below
  Score score = kDoesNotFit;
  GpuMask share_gpus = 0;
  GpuMask whole_gpus = 0;
  std::uint32_t ring_mbps = 0;        // best ring over whole_gpus, MB/s; 0 for fewer than two GPUs
  std::uint32_t ideal_ring_mbps = 0;  // best ring of the same number of GPUs on the idle machine
  // The GPU shares of each container, in the order of the request. The shares of one container are
  // ordered by slot.
  Record record;

  friend bool operator==(const Choice&, const Choice&) = default;
};

}  // namespace tessera::alloc
