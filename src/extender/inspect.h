// extender/inspect.h
//
// The ledger for people and tools, in the JSON of the systems being replaced with more fields beside.
#pragma once

#include <string>
#include <string_view>

#include "extender/cluster_state.h"

namespace tessera::extender {

// {"nodes":[{"name","totalGPU","usedGPU","devs":[{"id","totalGPU","usedGPU","pods":[...]}]}],...}; amounts
// are units of memory. `node` alone; if it is empty, all that have GPUs or should have them but are fenced
// ("fenced" says why). An unknown one is told in "error".
std::string inspect_shares(const ClusterState& state, std::string_view node);

// {"nodes":[{"name","totalGPU","usedGPU","topology":[[int]],"type"}],"policy"}; amounts are GPUs, links are
// the numbers of the topology scheduler (1 SYS .. 6 PSB, 7 .. 12 one to six NVLinks).
std::string inspect_topology(const ClusterState& state, std::string_view node);

}  // namespace tessera::extender
