// sim/fragmentation.h
//
// Fragmentation as the paper measures it ("Beware of Fragmentation", Weng et al., USENIX ATC 2023): the free
// GPU capacity of a node that a typical pod cannot use, in the mean over typical pods. Pods without GPUs are
// typical too and can use none of it, so an empty cluster is not without fragmentation.
//
// This is the yardstick that all policies are measured with, and the heart of the paper's own. What our `fgd`
// descends is alloc/fgd.h.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "alloc/ledger.h"
#include "sim/scenario.h"

namespace tessera::sim {

class Fragmentation {
 public:
  // `kinds` as typical_kinds() gives them; models are looked up in the ledger.
  Fragmentation(const std::vector<PodKind>& kinds, const alloc::Ledger& ledger);

  // Thousandths of GPUs times weight().
  [[nodiscard]] std::uint64_t of(const alloc::NodeView& node) const;
  // The same after `milli` of each of `gpus` and so much CPU were taken.
  [[nodiscard]] std::uint64_t after(const alloc::NodeView& node, alloc::GpuMask gpus, std::uint32_t milli,
                                    std::int64_t cpu_milli) const;

  // How many pods the typical kinds stand for.
  [[nodiscard]] std::uint64_t weight() const { return weight_; }

 private:
  using Free = std::array<std::uint32_t, topology::kMaxGpus>;
  struct Kind {
    std::int64_t cpu_milli = 0;
    std::uint32_t gpus = 0;
    std::uint32_t size = 0;  // in sizes_
    std::vector<std::uint8_t> models;
    std::uint64_t count = 0;
  };

  [[nodiscard]] std::uint64_t sum(const alloc::NodeView& node, const Free& free,
                                  std::int64_t cpu_milli) const;

  std::vector<std::uint32_t> sizes_;  // thousandths of a GPU that some kind asks for
  std::vector<Kind> kinds_;           // those with GPUs
  std::uint64_t weight_ = 0;
  std::uint64_t weight_without_gpus_ = 0;
};

}  // namespace tessera::sim
