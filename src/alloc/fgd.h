// alloc/fgd.h
//
// The policy `fgd`: what stays free shall be of use to the pods that usually come. Pure functions; integers
// only, because a rounding error is a tie-break nobody chose.
//
// After "Beware of Fragmentation" (Weng et al., USENIX ATC 2023). The fragmentation of a node is the free GPU
// capacity on it that a typical pod cannot use, in the mean over typical pods. A place is the better the more
// fragmentation falls there. Four things differ from the paper, and docs/simulate.md says what each is worth:
//
//   whole pods  only so many typical pods count as fit on a node, not every GPU that has room for one;
//   CPU         nor do GPUs for which no CPU would be left, so stranding is seen long before it is complete;
//   scarcity    a typical pod that few GPUs of the cluster could serve weighs more on those few;
//   levels      gains are compared in steps of 1/40 GPU, and within a step nodes have a fixed order of their
//               own, so that pods fill node after node, as with first-fit. Random ties would spread them.
//
//   Fgd fgd(typical);
//   fgd.weigh(empty_nodes);                              // again when nodes come or go
//   const auto place = fgd.choose_share(node, may, 8, 1, 4000);
//   const Score score = fgd_score(place->level, stable_order(node_name));
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "topology/gpu_mask.h"

namespace tessera::alloc {

// A pod that is expected again. Those without GPUs need not be named: they can use no GPU anywhere.
struct TypicalPod {
  std::uint32_t units = 0;  // on each of its GPUs; 0: it takes them whole
  std::uint16_t gpus = 0;
  std::int64_t cpu_milli = 0;
  std::vector<std::uint16_t> models;  // ids of those it may use; empty: any
  std::uint64_t count = 1;            // how often it comes

  friend bool operator==(const TypicalPod&, const TypicalPod&) = default;
};

// What matters of a node. Spans are by slot and of equal length, at most topology::kMaxGpus.
struct FgdNode {
  std::span<const std::uint32_t> total;  // units of each GPU
  std::span<const std::uint32_t> free;   // units a share could take now; 0 where it may not
  std::span<const std::uint16_t> model;
  topology::GpuMask whole_free = 0;  // can be taken whole
  std::int64_t cpu_milli_left = 0;
};

class Fgd {
 public:
  // Of more typical pods than these the most frequent count. More made the openb results worse, not better:
  // a long tail of rare kinds blurs what the frequent ones need.
  static constexpr std::size_t kMostTypical = 64;

  // With no typical pods every place is as good as any other, and the nodes' own order decides.
  explicit Fgd(std::span<const TypicalPod> typical);

  // Learns how scarce the places of each typical pod are. `empty_nodes` are all nodes with nothing on them;
  // before this, and for a pod that none of them could serve, nothing is scarce.
  void weigh(std::span<const FgdNode> empty_nodes);

  struct Choice {
    topology::GpuMask gpus = 0;
    std::int32_t level = 0;  // larger is better

    friend bool operator==(const Choice&, const Choice&) = default;
  };

  // The best `gpus` different GPUs of `may` for `units` on each; of equally good ones the tightest, then the
  // lowest slots. Nothing when they do not fit. CPU is taken as enough.
  [[nodiscard]] std::optional<Choice> choose_share(const FgdNode& node, topology::GpuMask may,
                                                 std::uint32_t units, unsigned gpus,
                                                 std::int64_t cpu_milli) const;

  // How good it is to take these GPUs whole, or none for a pod without GPUs.
  [[nodiscard]] std::int32_t level_of_whole(const FgdNode& node, topology::GpuMask taken,
                                            std::int64_t cpu_milli) const;

  // How good it is to turn one state of a node into another: for pods that are neither of the above.
  [[nodiscard]] std::int32_t level(const FgdNode& before, const FgdNode& after) const;

 private:
  // The sizes that typical pods have, each looked up once per node and not once per pod.
  struct Size {
    std::uint32_t units = 0;  // 0: whole
  };
  // Room on a node for one size.
  struct Room {
    std::uint32_t gpus = 0;    // with room for one
    std::uint32_t copies = 0;  // in all
    std::uint64_t usable = 0;  // what those copies take, in 2^-16 thousandths of a GPU
  };
  struct Typical {
    std::int64_t cpu_milli = 0;
    std::uint64_t pods_per_cpu = 0;  // how many of it a thousandth of a CPU serves, times 2^30
    std::uint32_t size = 0;          // in sizes_
    std::uint32_t gpus = 0;
    std::int32_t models = -1;  // in model_sets_; -1: any
    std::uint64_t share = 0;   // of all typical pods, times 2^16
    std::uint64_t weight = 0;  // that, times scarcity
  };
  class State;

  [[nodiscard]] bool allows(const Typical& typical, std::uint16_t model) const;
  [[nodiscard]] static std::int32_t level_between(std::int64_t before, std::int64_t after);

  std::vector<Size> sizes_;
  std::vector<Typical> typical_;  // by CPU, so that those beyond a node's are all behind the first
  std::vector<std::vector<std::uint8_t>> model_sets_;  // by model id: may be used
  std::uint64_t total_weight_ = 0;
};

// Level and order as one number that is never negative: larger is better, levels first.
std::int64_t fgd_score(std::int32_t level, std::uint32_t order);

// A node's place in an order that has nothing to do with anything and never changes.
std::uint32_t stable_order(std::string_view node_name);

}  // namespace tessera::alloc
