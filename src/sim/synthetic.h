// sim/synthetic.h
//
// A synthetic cluster and workload, for trying policies without a trace.
//
// The cluster has properties that make GPU clusters hard to fill: nodes with few and with many CPUs
// per GPU, old models that some pods require, shares that leave small remainders, pods that need a
// whole machine, and pods without GPUs that use up the CPUs of GPU nodes.
#pragma once

#include <cstdint>

#include "sim/trace.h"

namespace tessera::sim {

// Returns a trace with this many nodes and with pods that together request all GPUs of the nodes.
// Equal seeds give equal traces.
Trace synthetic_trace(std::uint32_t nodes, std::uint64_t seed);

}  // namespace tessera::sim
