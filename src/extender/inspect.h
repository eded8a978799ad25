// extender/inspect.h
//
// The ledger as JSON, for people and tools: the format of the originals with additional fields.
#pragma once

#include <string>
#include <string_view>

#include "extender/cluster_state.h"

namespace tessera::extender {

// Returns
// {"nodes":[{"name","totalGPU","usedGPU","devs":[{"id","totalGPU","usedGPU","pods":[...]}]}],...}.
// Amounts are units of memory. If `node` is empty, includes all nodes that have GPUs, or should
// have them but are excluded ("fenced" says why). Reports an unknown node in "error".
std::string inspect_shares(const ClusterState& state, std::string_view node);

// Returns {"nodes":[{"name","totalGPU","usedGPU","topology":[[int]],"type"}],"policy"}. Amounts are
// GPUs, links are the numbers of the original topology scheduler (1 SYS .. 6 PSB, 7 .. 12 one to
// six NVLinks).
std::string inspect_topology(const ClusterState& state, std::string_view node);

}  // namespace tessera::extender
