#include "sim/reference_policies.h"

#include <algorithm>
#include <cmath>

#include "sim/fragmentation.h"

namespace tessera::sim {

namespace {

using alloc::GpuMask;
using alloc::NodeId;
using alloc::NodeView;

constexpr int kDoesNotFit = -1;

struct Candidate {
  int score = 0;
  GpuMask gpus = 0;
};

// Returns the GPUs that most policies choose: one after the other, the GPU with the least free
// capacity that fits.
GpuMask tightest_gpus(const SimulatedCluster& cluster, std::uint32_t shape, const NodeView& node) {
  const PodShape& wanted = cluster.shape(shape);
  GpuMask taken = 0;
  for (std::uint32_t i = 0; i < wanted.gpus; ++i) {
    std::optional<unsigned> best;
    for (unsigned slot = 0; slot < node.size(); ++slot) {
      const bool fits = (taken & topology::gpu_bit(slot)) == 0 && node.free[slot] >= wanted.gpu_milli &&
                        cluster.allows(shape, node.model[slot]);
      if (fits && (!best || node.free[slot] < node.free[*best])) {
        best = slot;
      }
    }
    taken |= topology::gpu_bit(*best);
  }
  return taken;
}

// Scores every node and chooses the first of the best. Only nodes that have changed are scored
// again.
class ScoringPolicy : public PlacementPolicy {
 public:
  explicit ScoringPolicy(const SimulatedCluster& cluster)
      : cluster_(cluster), known_(cluster.shape_count()) {}

  std::optional<alloc::Choice> choose(std::uint32_t shape, Random& /*random*/) override {
    const std::span<const NodeId> nodes = cluster_.nodes();
    std::vector<Known>& known = known_[shape];
    known.resize(nodes.size());
    int best = kDoesNotFit;
    std::optional<NodeId> where;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::uint64_t version = cluster_.ledger().states().version(nodes[i]);
      if (known[i].version != version) {
        known[i] = {.version = version, .score = score_of_node(shape, nodes[i])};
      }
      if (known[i].score > best) {
        best = known[i].score;
        where = nodes[i];
      }
    }
    if (!where) {
      return std::nullopt;
    }
    return cluster_.choice(shape, *where, best_on(shape, cluster_.ledger().view(*where)).gpus);
  }

 protected:
  // The score of a node where the pod fits.
  [[nodiscard]] virtual int score(std::uint32_t shape, const NodeView& node) const = 0;
  // Score and GPUs, for policies that choose both together.
  [[nodiscard]] virtual Candidate best_on(std::uint32_t shape, const NodeView& node) const {
    return {.score = score(shape, node), .gpus = tightest_gpus(cluster_, shape, node)};
  }

  [[nodiscard]] const SimulatedCluster& cluster() const { return cluster_; }
  [[nodiscard]] const PodShape& wanted(std::uint32_t shape) const { return cluster_.shape(shape); }

 private:
  struct Known {
    std::uint64_t version = ~std::uint64_t{0};
    int score = kDoesNotFit;
  };

  [[nodiscard]] int score_of_node(std::uint32_t shape, NodeId node) const {
    return cluster_.fits(shape, node) ? score(shape, cluster_.ledger().view(node)) : kDoesNotFit;
  }

  const SimulatedCluster& cluster_;
  std::vector<std::vector<Known>> known_;  // by shape, then position of the node
};

class FirstFit : public ScoringPolicy {
 public:
  using ScoringPolicy::ScoringPolicy;

 private:
  [[nodiscard]] int score(std::uint32_t /*shape*/, const NodeView& /*node*/) const override { return 0; }
};

// The largest amounts of any node, for normalization.
struct Largest {
  double cpu_milli = 1;
  double gpu_milli = 1;

  explicit Largest(const SimulatedCluster& cluster) {
    for (const NodeId id : cluster.nodes()) {
      const NodeView node = cluster.ledger().view(id);
      cpu_milli = std::max(cpu_milli, static_cast<double>(node.cpu_milli_total));
      gpu_milli = std::max(gpu_milli, static_cast<double>(node.total_units));
    }
  }
};

// Prefers the node with the least CPU and GPU left, both with equal weight.
class BestFit : public ScoringPolicy {
 public:
  explicit BestFit(const SimulatedCluster& all) : ScoringPolicy(all), largest_(all) {}

 private:
  [[nodiscard]] int score(std::uint32_t shape, const NodeView& node) const override {
    const double cpu =
        static_cast<double>(node.cpu_milli_left - wanted(shape).cpu_milli) / largest_.cpu_milli;
    const double gpu =
        (static_cast<double>(node.free_units) - static_cast<double>(wanted(shape).requested_gpu_milli())) /
        largest_.gpu_milli;
    return static_cast<int>(100 * (1 - 0.5 * cpu - 0.5 * gpu));
  }

  Largest largest_;
};

// Prefers the node whose free CPU and GPU are least similar to the request of the pod.
class DotProd : public ScoringPolicy {
 public:
  explicit DotProd(const SimulatedCluster& all) : ScoringPolicy(all), largest_(all) {}

 private:
  [[nodiscard]] int score(std::uint32_t shape, const NodeView& node) const override {
    const double cpu = static_cast<double>(node.cpu_milli_left) / largest_.cpu_milli *
                       static_cast<double>(wanted(shape).cpu_milli) / largest_.cpu_milli;
    const double gpu = static_cast<double>(node.free_units) / largest_.gpu_milli *
                       static_cast<double>(wanted(shape).requested_gpu_milli()) / largest_.gpu_milli;
    return static_cast<int>(100 * (1 - (cpu + gpu) / 2));
  }

  Largest largest_;
};

// Prefers nodes that hold only pods of the same class: shares, or an equal number of whole GPUs.
class GpuClustering : public ScoringPolicy {
 public:
  explicit GpuClustering(const SimulatedCluster& all)
      : ScoringPolicy(all), largest_gpu_milli_(static_cast<std::int64_t>(Largest(all).gpu_milli)) {}

 private:
  // One bit for shares, one for each number of whole GPUs.
  using Classes = std::uint64_t;
  static Classes class_of(std::uint64_t shares, std::uint64_t whole_gpus) {
    return shares > 0 ? 1 : whole_gpus > 0 ? Classes{1} << std::min<std::uint64_t>(whole_gpus, 63) : 0;
  }

  [[nodiscard]] int score(std::uint32_t shape, const NodeView& node) const override {
    const PodShape& pod = wanted(shape);
    if (pod.gpus == 0) {
      return 0;
    }
    const Classes mine = class_of(pod.is_share() ? pod.gpus : 0, pod.gpus);
    const Classes held = held_by(node);
    const int affinity = held == mine ? 75 : (held & mine) != 0 ? 50 : held == 0 ? 25 : 0;
    const std::int64_t taken = largest_gpu_milli_ - static_cast<std::int64_t>(node.free_units);
    return affinity + static_cast<int>(25 * taken / largest_gpu_milli_);
  }

  [[nodiscard]] Classes held_by(const NodeView& node) const {
    known_.resize(std::max(known_.size(), raw(node.id) + std::size_t{1}));
    Known& known = known_[raw(node.id)];
    if (known.version != node.version) {
      known = {.version = node.version, .classes = 0};
      for (const alloc::PodHolding& pod : cluster().ledger().holdings(node.id)) {
        known.classes |= class_of(pod.units, pod.whole);
      }
    }
    return known.classes;
  }

  struct Known {
    std::uint64_t version = ~std::uint64_t{0};
    Classes classes = 0;
  };

  std::int64_t largest_gpu_milli_;
  mutable std::vector<Known> known_;  // by node
};

// Prefers shared GPUs, then free GPUs of nodes in use, then those of idle nodes.
class GpuPacking : public ScoringPolicy {
 public:
  using ScoringPolicy::ScoringPolicy;

 private:
  [[nodiscard]] int score(std::uint32_t shape, const NodeView& node) const override {
    if (wanted(shape).gpus == 0) {
      return 0;
    }
    const auto free_gpus = static_cast<int>(topology::gpu_count(node.whole_free));
    if (free_gpus == static_cast<int>(node.size())) {
      return std::max(100 / 3 - free_gpus, free_gpus);
    }
    const GpuMask gpus = tightest_gpus(cluster(), shape, node);
    if (const auto opened = static_cast<int>(topology::gpu_count(gpus & node.whole_free)); opened > 0) {
      return std::max(50 - opened, 100 / 3);
    }
    std::int64_t free_percent = 0;
    for (const unsigned slot : topology::GpuIndices(gpus)) {
      free_percent += std::int64_t{node.free[slot]} * 100 / kGpuMilli;
    }
    return std::max(100 - static_cast<int>(free_percent / 10), 50);
  }
};

// FGD of the paper: chooses the node, and for shares the GPU, with the steepest descent of
// fragmentation.
class FragmentationDescent : public ScoringPolicy {
 public:
  FragmentationDescent(const SimulatedCluster& all, const std::vector<PodKind>& kinds)
      : ScoringPolicy(all), fragmentation_(kinds, all.ledger()) {}

 private:
  [[nodiscard]] int score(std::uint32_t shape, const NodeView& node) const override {
    return best_on(shape, node).score;
  }

  [[nodiscard]] Candidate best_on(std::uint32_t shape, const NodeView& node) const override {
    const PodShape& pod = wanted(shape);
    const std::uint64_t before = fragmentation_.of(node);
    if (!pod.is_share() || pod.gpus > 1) {
      const GpuMask gpus = tightest_gpus(cluster(), shape, node);
      return {.score = score_of(before, fragmentation_.after(node, gpus, pod.gpu_milli, pod.cpu_milli)),
              .gpus = gpus};
    }
    Candidate best{.score = kDoesNotFit};
    for (unsigned slot = 0; slot < node.size(); ++slot) {
      // GPUs with equal free capacity have equal scores; the first wins.
      const bool seen = std::ranges::find(node.free.first(slot), node.free[slot]) != node.free.begin() + slot;
      if (seen || node.free[slot] < pod.gpu_milli || !cluster().allows(shape, node.model[slot])) {
        continue;
      }
      const GpuMask gpu = topology::gpu_bit(slot);
      const int reached = score_of(before, fragmentation_.after(node, gpu, pod.gpu_milli, pod.cpu_milli));
      if (reached > best.score) {
        best = {.score = reached, .gpus = gpu};
      }
    }
    return best;
  }

  [[nodiscard]] int score_of(std::uint64_t before, std::uint64_t after) const {
    const double gain = static_cast<double>(static_cast<std::int64_t>(before - after)) /
                        static_cast<double>(fragmentation_.weight());
    return static_cast<int>(100 / (1 + std::exp(-gain / 1000)));
  }

  Fragmentation fragmentation_;
};

// Chooses a random node and random GPUs that fit.
class RandomChoice : public PlacementPolicy {
 public:
  explicit RandomChoice(const SimulatedCluster& cluster) : cluster_(cluster) {}

  std::optional<alloc::Choice> choose(std::uint32_t shape, Random& random) override {
    fitting_.clear();
    for (const NodeId node : cluster_.nodes()) {
      if (cluster_.fits(shape, node)) {
        fitting_.push_back(node);
      }
    }
    if (fitting_.empty()) {
      return std::nullopt;
    }
    const NodeId where = fitting_[random.below(fitting_.size())];
    const NodeView node = cluster_.ledger().view(where);
    const PodShape& pod = cluster_.shape(shape);
    if (!pod.is_share()) {
      return cluster_.choice(shape, where, tightest_gpus(cluster_, shape, node));
    }
    std::vector<unsigned> slots;
    for (unsigned slot = 0; slot < node.size(); ++slot) {
      if (node.free[slot] >= pod.gpu_milli && cluster_.allows(shape, node.model[slot])) {
        slots.push_back(slot);
      }
    }
    random.shuffle(slots);
    GpuMask gpus = 0;
    for (std::uint32_t i = 0; i < pod.gpus; ++i) {
      gpus |= topology::gpu_bit(slots[i]);
    }
    return cluster_.choice(shape, where, gpus);
  }

 private:
  const SimulatedCluster& cluster_;
  std::vector<NodeId> fitting_;
};

}  // namespace

std::unique_ptr<PlacementPolicy> make_reference_policy(std::string_view name, const SimulatedCluster& cluster,
                                                       const std::vector<PodKind>& kinds) {
  if (name == "FirstFit") {
    return std::make_unique<FirstFit>(cluster);
  }
  if (name == "Random") {
    return std::make_unique<RandomChoice>(cluster);
  }
  if (name == "DotProd") {
    return std::make_unique<DotProd>(cluster);
  }
  if (name == "GpuClustering") {
    return std::make_unique<GpuClustering>(cluster);
  }
  if (name == "GpuPacking") {
    return std::make_unique<GpuPacking>(cluster);
  }
  if (name == "BestFit") {
    return std::make_unique<BestFit>(cluster);
  }
  if (name == "FGD") {
    return std::make_unique<FragmentationDescent>(cluster, kinds);
  }
  return nullptr;
}

}  // namespace tessera::sim
