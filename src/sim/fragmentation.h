// sim/fragmentation.h
//
// Fragmentation as defined by "Beware of Fragmentation" (Weng et al., USENIX ATC 2023): the free
// GPU capacity of a node that a typical pod cannot use, averaged over the typical pods. Pods
// without GPUs are typical too and cannot use any GPU, so even an empty cluster is fragmented.
//
// The simulator measures the fragmentation of all policies. The policy FGD of the paper minimizes
// it. Tessera's policy `fgd` minimizes a different measure (alloc/fgd.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "alloc/ledger.h"
#include "sim/scenario.h"

namespace tessera::sim {

class Fragmentation {
 public:
  // `kinds` come from typical_kinds(); models are looked up in the ledger.
  Fragmentation(const std::vector<PodKind>& kinds, const alloc::Ledger& ledger);

  // Returns the fragmentation of a node, summed over the typical pods, in thousandths of a GPU.
  // Divide by weight() for the average.
  [[nodiscard]] std::uint64_t of(const alloc::NodeView& node) const;
  // Returns what of() would return after a pod has taken `milli` thousandths of each GPU in `gpus`
  // and `cpu_milli` of CPU.
  [[nodiscard]] std::uint64_t after(const alloc::NodeView& node, alloc::GpuMask gpus, std::uint32_t milli,
                                    std::int64_t cpu_milli) const;

  // The number of pods that the typical kinds represent.
  [[nodiscard]] std::uint64_t weight() const { return weight_; }

 private:
  using Free = std::array<std::uint32_t, topology::kMaxGpus>;
  struct Kind {
    std::int64_t cpu_milli = 0;
    std::uint32_t gpus = 0;
    std::uint32_t size = 0;  // position in sizes_
    std::vector<std::uint8_t> models;
    std::uint64_t count = 0;
  };

  [[nodiscard]] std::uint64_t sum(const alloc::NodeView& node, const Free& free,
                                  std::int64_t cpu_milli) const;

  std::vector<std::uint32_t> sizes_;  // thousandths of a GPU that the kinds request
  std::vector<Kind> kinds_;           // those with GPUs
  std::uint64_t weight_ = 0;
  std::uint64_t weight_without_gpus_ = 0;
};

}  // namespace tessera::sim
