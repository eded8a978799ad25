#include "alloc/whole_sets.h"

namespace tessera::alloc {

namespace {

// 64 GPUs have more sets than fit into memory. The cache is cleared when it has this many entries.
constexpr std::size_t kMostKnown = 1U << 16U;

std::optional<topology::SetChoice> search(const topology::SetTables& tables, Policy policy,
                                          const topology::SetQuery& query) {
  switch (policy) {
    case Policy::kSimple:
      return choose_simple(tables, query);
    case Policy::kBestEffort:
      return choose_best_effort(tables, query);
    case Policy::kPrim:
      return choose_prim(tables, query);
    default:
      return choose_ring(tables, query);
  }
}

}  // namespace

std::size_t WholeSets::SituationHash::operator()(const Situation& s) const {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ULL;
  std::uint64_t hash =
      (std::uint64_t{s.topology} << 16U) ^ (static_cast<std::uint64_t>(s.policy) << 8U) ^ s.count;
  for (const std::uint64_t part : {s.free, s.spare}) {
    hash = (hash ^ part) * kOdd;
    hash ^= hash >> 29U;
  }
  return hash;
}

std::optional<topology::SetChoice> WholeSets::choose(const NodeView& view, const MachineNames& machine,
                                                     Policy policy, GpuMask free, unsigned count,
                                                     GpuMask spare) {
  if (topology::gpu_count(free) < count || count == 0 || view.tables == nullptr) {
    return std::nullopt;
  }
  const topology::SetQuery query{.free = free, .count = count, .required = 0, .shared = spare};
  if (policy == Policy::kStatic && static_sets_ != nullptr) {
    // If the table does not list the machine or has no free set, use the default policy: a pod must
    // not wait because a table is incomplete.
    const std::string_view type = static_sets_->listed(machine.own, machine.instance_type);
    if (auto listed = static_sets_->choose(*view.tables, type, query)) {
      return *listed;
    }
  }
  const Situation situation{.topology = view.topology,
                            .policy = policy == Policy::kStatic ? Policy::kRing : policy,
                            .count = static_cast<std::uint8_t>(count),
                            .free = free,
                            .spare = spare};
  if (const auto known = known_.find(situation); known != known_.end()) {
    return known->second;
  }
  const auto found = search(*view.tables, situation.policy, query);
  if (found) {
    if (known_.size() >= kMostKnown) {
      known_.clear();
    }
    known_.emplace(situation, *found);
  }
  return found;
}

}  // namespace tessera::alloc
