// alloc/share_policy.h
//
// Which GPUs of a node shares of GPU memory go on: the policies `binpack` and `spread`. Pure functions.
//
//   binpack  a GPU that is shared already before one that is wholly free; of those the one that fits most
//            tightly; of wholly free ones the one that well-connected groups miss least
//   spread   the GPU with most free
#pragma once

#include "alloc/query.h"

namespace tessera::alloc {

// Puts all parts of the query on GPUs of `may`; false when they do not fit. Where `keep_whole_free` is set,
// wholly free GPUs come last whatever the policy: the pod wants whole ones beside.
bool choose_shares(const Query& query, const NodeView& view, GpuMask may, bool keep_whole_free, GpuChoice& choice);

// Whether enough GPUs of `may` could take one part.
bool has_room(const NodeView& view, GpuMask may, const SharePart& share);

// What well-connected groups lose when these free GPUs are broken up, 0 .. 65535.
std::uint32_t group_damage(const NodeView& view, GpuMask opened);

}  // namespace tessera::alloc
