// alloc/share_policy.h
//
// Chooses the GPUs of a node for shares: the policies `binpack` and `spread`. Pure functions.
//
//   binpack  prefers the shared GPU with the least free memory; if no shared GPU fits, the smallest
//            wholly free GPU; of equal ones the one whose loss costs well-connected groups least
//   spread   prefers the GPU with the most free memory
#pragma once

#include "alloc/query.h"

namespace tessera::alloc {

// Chooses GPUs for all parts of the query from `may`, the allowed GPUs. Returns false if the parts
// do not fit. If the pod also requests whole GPUs, set `keep_whole_free`: then `spread`, like
// `binpack`, uses a wholly free GPU only if no other fits.
bool choose_shares(const Query& query, const NodeView& view, GpuMask may, bool keep_whole_free,
                   GpuChoice& choice);

// Returns whether enough GPUs of `may` have room for one part.
bool has_room(const NodeView& view, GpuMask may, const SharePart& share);

// Returns how much well-connected groups lose when these free GPUs become shared, 0 .. 65535.
std::uint32_t group_damage(const NodeView& view, GpuMask opened);

}  // namespace tessera::alloc
