// sim/scenario.h
//
// One repetition of an experiment: in which order the pods of a trace arrive, how many more of them, and in
// which order nodes are looked at. The procedure is that of the artifact of "Beware of Fragmentation" (Weng
// et al., USENIX ATC 2023); the random numbers are ours.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/random.h"
#include "sim/trace.h"

namespace tessera::sim {

struct Scenario {
  std::vector<std::uint32_t> pods;   // in Trace::pods, in the order of arrival
  std::vector<std::uint32_t> nodes;  // in Trace::nodes, the first being the first to be tried
};

// Pods are sorted by name and shuffled. Then pods drawn from the trace are added, or pods are taken out at
// random, until they ask for `load_milli` thousandths of all GPUs.
Scenario draw_scenario(const Trace& trace, std::uint64_t seed, std::int64_t load_milli);

// A kind of pod. Memory is left out: it is never what runs short in this experiment.
struct PodKind {
  std::int64_t cpu_milli = 0;
  std::uint32_t gpus = 0;
  std::uint32_t gpu_milli = 0;
  std::vector<std::string> models{};
  std::uint64_t count = 0;

  friend bool operator==(const PodKind&, const PodKind&) = default;
};

// The paper calls the most frequent kinds typical that make up so many percent of all pods.
constexpr unsigned kPaperTypicalPercent = 95;
// Ours knows more of them: large jobs are few and hold much, and at 95% a cluster of mostly small pods would
// know of none, and break up the last free machines that they need.
constexpr unsigned kOurTypicalPercent = 99;

// The most frequent kinds of pods that make up so many percent of all pods, most frequent first.
std::vector<PodKind> typical_kinds(const std::vector<TracePod>& pods, unsigned percent);

}  // namespace tessera::sim
