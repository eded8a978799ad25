// extender/inspect.h
//
// The ledger as JSON, for people and tools: the format of the originals with additional fields.
#pragma once

#include <string>
#include <string_view>

#include "extender/cluster_state.h"

namespace tessera::extender {

// Returns the ledger in the format of the original gpushare extender:
// {"nodes":[{"name","totalGPU","usedGPU","devs":[{"id","totalGPU","usedGPU","pods":[...]}]}],...}.
// Amounts are units of memory. If `node` is empty, the result has all nodes with GPUs. It also has
// nodes that should have GPUs but receive no pods; their field "fenced" says why. If `node` is
// unknown, the result has a field "error" with a message.
std::string inspect_shares(const ClusterState& state, std::string_view node);

// Returns the ledger in the format of the original topology scheduler:
// {"nodes":[{"name","totalGPU","usedGPU","topology":[[int]],"type"}],"policy"}.
// Amounts are numbers of GPUs. A link is a number: 1 SYS .. 6 PSB, 7 .. 12 one to six NVLinks. A
// node with too many GPUs for an exact search of the best set has "exact":false.
std::string inspect_topology(const ClusterState& state, std::string_view node);

}  // namespace tessera::extender
