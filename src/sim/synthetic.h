// sim/synthetic.h
//
// A cluster and a workload made up, for trying policies without a trace.
//
// They have what makes GPU clusters hard to fill: nodes with few CPUs beside nodes with many, old models that
// some pods insist on, shares that leave slivers, pods that want a whole machine, and pods without GPUs that
// eat the CPUs of those with.
#pragma once

#include <cstdint>

#include "sim/trace.h"

namespace tessera::sim {

// `nodes` of them, and as many pods as ask for all their GPUs together. The same seed gives the same trace.
Trace synthetic_trace(std::uint32_t nodes, std::uint64_t seed);

}  // namespace tessera::sim
