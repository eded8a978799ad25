#include "sim/placer_policy.h"

#include <bit>
#include <utility>

namespace tessera::sim {

namespace {

std::vector<alloc::TypicalRequest> typical_requests(const std::vector<PodKind>& kinds) {
  std::vector<alloc::TypicalRequest> typical;
  for (const PodKind& kind : kinds) {
    const PodShape shape{.cpu_milli = kind.cpu_milli,
                         .memory_bytes = 0,
                         .gpus = kind.gpus,
                         .gpu_milli = kind.gpu_milli,
                         .models = kind.models};
    typical.push_back({.shape = shape.request().shape, .models = kind.models, .count = kind.count});
  }
  return typical;
}

alloc::Placer::Options options_of(alloc::Policy policy, const std::vector<PodKind>& kinds) {
  alloc::Placer::Options options;
  options.share_policy = policy;
  options.typical = typical_requests(kinds);
  options.check_cpu_and_memory = true;
  return options;
}

}  // namespace

PlacerPolicy::PlacerPolicy(alloc::Policy policy, const SimulatedCluster& cluster,
                           const std::vector<PodKind>& kinds)
    : cluster_(cluster),
      placer_(cluster.ledger(), options_of(policy, kinds)),
      scores_(cluster.nodes().size()),
      learns_(policy == alloc::Policy::kFgd && kinds.empty()) {}

std::optional<alloc::Choice> PlacerPolicy::choose(std::uint32_t shape, Random& random) {
  if (learns_) {
    learn(shape);
  }
  const std::span<const alloc::NodeId> nodes = cluster_.nodes();
  placer_.score(cluster_.request(shape), nodes, scores_);
  alloc::Score best = alloc::kDoesNotFit;
  std::size_t where = 0;
  std::uint64_t equal = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (scores_[i] == alloc::kDoesNotFit || scores_[i] < best) {
      continue;
    }
    equal = scores_[i] == best ? equal + 1 : 1;
    best = scores_[i];
    // The k-th of several equal nodes replaces the chosen one with probability 1/k, so all of them
    // are equally likely to be chosen.
    where = random.below(equal) == 0 ? i : where;
  }
  if (best == alloc::kDoesNotFit) {
    return std::nullopt;
  }
  auto choice = placer_.choose(cluster_.request(shape), nodes[where]);
  return choice ? std::optional(std::move(*choice)) : std::nullopt;
}

// Counts the pod and updates the typical pods: often at first, later rarely, because the placer
// must then compute all scores again.
void PlacerPolicy::learn(std::uint32_t shape) {
  constexpr std::uint64_t kEvery = 500;
  seen_.add(cluster_.request(shape));
  ++pods_seen_;
  if (pods_seen_ % kEvery == 0 || (pods_seen_ < kEvery && std::has_single_bit(pods_seen_))) {
    placer_.set_typical(seen_.typical());
  }
}

}  // namespace tessera::sim
