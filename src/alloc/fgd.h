// alloc/fgd.h
//
// The policy `fgd` (fragmentation gradient descent): keeps the free GPU capacity usable for typical
// pods. Pure functions that use integers only, because a rounding error would decide ties.
//
// Based on "Beware of Fragmentation" (Weng et al., USENIX ATC 2023). The fragmentation of a node is
// the free GPU capacity that a typical pod cannot use, averaged over the typical pods. The policy
// chooses the GPUs that reduce fragmentation most. It differs from the paper in four ways;
// docs/simulate.md has the effect of each:
//
//   whole pods  Free GPU capacity counts as usable only as far as whole typical pods fit into it.
//               In the paper, all free capacity of a GPU counts if one typical pod fits there.
//   CPU         Free GPU capacity counts only as far as the node has enough free CPU to use it. So
//               the policy keeps CPU free for the GPUs before the node runs out of CPU.
//   scarcity    A typical pod has a higher weight if few GPUs of the cluster can serve it. So the
//               policy keeps these GPUs usable for it.
//   levels      The reduction of fragmentation is compared in steps of 1/40 GPU, called levels.
//               Nodes with the same level have a fixed order, so pods fill node after node, as with
//               first-fit. A random order would spread the pods.
//
//   Fgd fgd(typical);
//   fgd.weigh(empty_nodes);                              // again when nodes are added or removed
//   const auto choice = fgd.choose_share(node, may, 8, 1, 4000);
//   const Score score = fgd_score(choice->level, stable_order(node_name));
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "topology/gpu_mask.h"

namespace tessera::alloc {

// A kind of pod that is expected to arrive again. Pods without GPUs are not listed, because they
// use no GPU capacity.
struct TypicalPod {
  std::uint32_t units = 0;  // on each of its GPUs; 0: whole GPUs
  std::uint16_t gpus = 0;
  std::int64_t cpu_milli = 0;
  std::vector<std::uint16_t> models;  // ids of the models it may use; empty: any
  std::uint64_t count = 1;            // how often it was seen

  friend bool operator==(const TypicalPod&, const TypicalPod&) = default;
};

// The state of a node that the policy uses. Spans are indexed by slot (see NodeView) and have the
// same length, at most topology::kMaxGpus.
struct FgdNode {
  std::span<const std::uint32_t> total;  // units of each GPU
  std::span<const std::uint32_t> free;   // units that shares can take; 0 if held whole or unhealthy
  std::span<const std::uint16_t> model;
  topology::GpuMask whole_free = 0;  // can be taken whole
  std::int64_t cpu_milli_left = 0;
};

class Fgd {
 public:
  // The largest number of typical pods. If there are more, only the most frequent ones are used. A
  // higher limit made the results on the openb traces (docs/simulate.md) worse, because many rare
  // kinds blur what the frequent ones need.
  static constexpr std::size_t kMostTypical = 64;

  // Without typical pods all choices are equally good, and the order of the nodes decides.
  explicit Fgd(std::span<const TypicalPod> typical);

  // Sets the weight of each typical pod: its frequency among the typical pods, multiplied by its
  // scarcity. The scarcity is the number of all GPUs divided by the number of GPUs that can serve
  // the pod. The scarcity is at most 4,096. It is 1 if no GPU can serve the pod. Before the first
  // call, it is 1 for all pods. `empty_nodes` are all nodes as if no pod ran there.
  void weigh(std::span<const FgdNode> empty_nodes);

  struct Choice {
    topology::GpuMask gpus = 0;
    std::int32_t level = 0;  // reduction of fragmentation, in steps; larger is better

    friend bool operator==(const Choice&, const Choice&) = default;
  };

  // Chooses `gpus` different GPUs from the allowed GPUs `may`, with `units` on each. Among equally
  // good GPUs prefers the least free memory, then the lowest slot. Returns nullopt if fewer than
  // `gpus` GPUs have room. Does not check CPU.
  [[nodiscard]] std::optional<Choice> choose_share(const FgdNode& node, topology::GpuMask may,
                                                   std::uint32_t units, unsigned gpus,
                                                   std::int64_t cpu_milli) const;

  // Returns the level that results if a pod takes the GPUs `taken` whole; `taken` is 0 for a pod
  // without GPUs.
  [[nodiscard]] std::int32_t level_of_whole(const FgdNode& node, topology::GpuMask taken,
                                            std::int64_t cpu_milli) const;

  // Returns the level of the change from `before` to `after`, for pods with several parts.
  [[nodiscard]] std::int32_t level(const FgdNode& before, const FgdNode& after) const;

 private:
  // The different sizes of typical pods. Room is computed once per size and node, not once per pod.
  struct Size {
    std::uint32_t units = 0;  // 0: whole
  };
  // How many GPU shares of one size fit on a node. Each of them is called a copy.
  struct Room {
    std::uint32_t gpus = 0;    // GPUs with room for at least one copy
    std::uint32_t copies = 0;  // copies that fit on all GPUs together
    std::uint64_t usable = 0;  // capacity that the copies take, in 2^-16 thousandths of a GPU
  };
  struct Typical {
    std::int64_t cpu_milli = 0;
    std::uint64_t pods_per_cpu = 0;  // pods per thousandth of a CPU, times 2^30
    std::uint32_t size = 0;          // index in sizes_
    std::uint32_t gpus = 0;
    std::int32_t models = -1;  // index in model_sets_; -1: any
    std::uint64_t share = 0;   // fraction of all typical pods, times 2^16
    std::uint64_t weight = 0;  // share times scarcity
  };
  class State;

  [[nodiscard]] bool allows(const Typical& typical, std::uint16_t model) const;
  [[nodiscard]] static std::int32_t level_between(std::int64_t before, std::int64_t after);

  std::vector<Size> sizes_;
  std::vector<Typical> typical_;  // by ascending CPU, so that fragmentation() can stop early
  std::vector<std::vector<std::uint8_t>> model_sets_;  // by model id: whether it may be used
  std::uint64_t total_weight_ = 0;
};

// Packs level and order into one non-negative score: larger is better, the level counts first.
std::int64_t fgd_score(std::int32_t level, std::uint32_t order);

// Returns a hash of the name: an arbitrary order of nodes that never changes.
std::uint32_t stable_order(std::string_view node_name);

}  // namespace tessera::alloc
