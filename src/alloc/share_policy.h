// alloc/share_policy.h
//
// Chooses the GPUs of a node for shares: the policies `binpack` and `spread`. Pure functions.
//
//   binpack  prefers the shared GPU with the least free memory. If no shared GPU fits, takes the
//            smallest wholly free GPU. Of equally small GPUs, takes the one that does the least
//            damage to groups of well-connected GPUs (group_damage).
//   spread   prefers the GPU with the most free memory
#pragma once

#include "alloc/query.h"

namespace tessera::alloc {

// Chooses GPUs for all parts of the query from `may`, the allowed GPUs, and writes them to
// `choice`. Returns false if the parts do not fit. Set `keep_whole_free` if the pod also requests
// whole GPUs. `spread` then uses a wholly free GPU only if no other fits, as `binpack` always does.
bool choose_shares(const Query& query, const NodeView& view, GpuMask may, bool keep_whole_free,
                   GpuChoice& choice);

// Returns whether enough GPUs of `may` have room for one part.
bool has_room(const NodeView& view, GpuMask may, const SharePart& share);

// Returns how much value for later requests (topology/left_for_others.h) the wholly free GPUs of
// the node lose when the GPUs `opened` become shared: 0 (nothing) .. 65535. Returns 0 on machines
// with more than topology::kExactGpus GPUs.
std::uint32_t group_damage(const NodeView& view, GpuMask opened);

}  // namespace tessera::alloc
