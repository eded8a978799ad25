// sim/scenario.h
//
// One repetition of an experiment: which pods of a trace arrive in which order, and in which order
// nodes are tried. The procedure is that of the artifact of "Beware of Fragmentation" (Weng et al.,
// USENIX ATC 2023), with Tessera's random numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/random.h"
#include "sim/trace.h"

namespace tessera::sim {

struct Scenario {
  std::vector<std::uint32_t> pods;   // positions in Trace::pods, in the order of arrival
  std::vector<std::uint32_t> nodes;  // positions in Trace::nodes, in the order of trying
};

// Sorts the pods by name and shuffles them. Then adds random pods of the trace, or removes random
// pods, until all together request `load_milli` thousandths of all GPUs.
Scenario draw_scenario(const Trace& trace, std::uint64_t seed, std::int64_t load_milli);

// A kind of pod. Memory is left out, because the nodes of these traces always have enough memory.
struct PodKind {
  std::int64_t cpu_milli = 0;
  std::uint32_t gpus = 0;
  std::uint32_t gpu_milli = 0;
  std::vector<std::string> models{};
  std::uint64_t count = 0;

  friend bool operator==(const PodKind&, const PodKind&) = default;
};

// Typical pods in the paper: the most frequent kinds that together are this percentage of all pods.
constexpr unsigned kPaperTypicalPercent = 95;
// The percentage for Tessera's `fgd`. Large jobs are rare but hold many GPUs. At 95%, the typical
// pods of a cluster with mostly small pods would include no large job, and `fgd` would break up the
// last free machines that large jobs need.
constexpr unsigned kOurTypicalPercent = 99;

// Returns the most frequent kinds that together are `percent` of all pods, most frequent first.
std::vector<PodKind> typical_kinds(const std::vector<TracePod>& pods, unsigned percent);

}  // namespace tessera::sim
