// Pods of the ledger: checks their records and adds their load to the node.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "alloc/ledger.h"
#include "alloc/original_record.h"

namespace tessera::alloc {

namespace {

template <class Number>
std::uint32_t to_u32(Number value) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(value, std::numeric_limits<std::uint32_t>::max()));
}

// Returns whether the shares are from an original record, which names GPUs by index.
bool by_index(const std::vector<HeldShare>& shares) {
  return !shares.empty() && index_of_name(shares.front().share.gpu);
}

bool all_on_node(const std::vector<HeldShare>& shares) {
  return std::ranges::none_of(shares,
                              [](const HeldShare& held) { return held.slot == HeldShare::kNotOnNode; });
}

bool same_record(const std::vector<HeldShare>& a, const std::vector<HeldShare>& b) {
  return std::ranges::equal(a, b, {}, &HeldShare::share, &HeldShare::share);
}

// Returns whether two records, one of which may name GPUs by index, mean the same GPUs.
bool same_gpus(const std::vector<HeldShare>& a, const std::vector<HeldShare>& b) {
  const auto same = [](const HeldShare& x, const HeldShare& y) {
    return x.slot == y.slot && x.share.units == y.share.units &&
           x.share.core_percent == y.share.core_percent && x.share.whole == y.share.whole;
  };
  return all_on_node(a) && std::ranges::is_permutation(a, b, same);
}

// Makes `share` the larger of both.
void enlarge(GpuShare& share, const GpuShare& other) {
  share.whole = share.whole || other.whole;
  share.units = share.whole ? 0 : std::max(share.units, other.units);
  share.core_percent = share.whole ? 0 : std::max(share.core_percent, other.core_percent);
}

}  // namespace

Ledger::PodId Ledger::add_pod(const PodKey& key) {
  PodId id = 0;
  if (unused_pods_.empty()) {
    id = static_cast<PodId>(pods_.size());
    pods_.emplace_back();
  } else {
    id = unused_pods_.back();
    unused_pods_.pop_back();
  }
  pods_[id].key = key;
  by_uid_.emplace(pods_[id].key.uid, id);
  return id;
}

// Keeps and increments the generation, so that a stale Hold does not act on the next pod with this
// id.
void Ledger::drop_pod(PodId id) {
  Pod& pod = pods_[id];
  detach(id);
  left(pod.node);
  by_uid_.erase(pod.key.uid);
  record_faults_.erase(id);
  const std::uint32_t generation = pod.generation;
  pod = Pod{};
  pod.generation = generation + 1;
  unused_pods_.push_back(id);
}

void Ledger::upsert_pod(const PodSpec& spec, PodSource source) {
  if (spec.uid.empty()) {
    return;  // a pod from an API server always has a UID
  }
  const auto found = by_uid_.find(spec.uid);
  const bool shown_bound = found != by_uid_.end() && pods_[found->second].state == PodState::kBound;
  if (!occupies(spec)) {
    remove_pod(spec.uid);
    return;
  }
  if (source == PodSource::kGet && shown_bound) {
    return;  // the response may be older than what the watch has shown
  }
  if (spec.node_name.empty()) {
    // If the watch has shown the bind, the API server was restored from a backup since. If it has
    // not, the pod may have a hold: keep it.
    if (shown_bound) {
      drop_pod(found->second);
    }
    return;
  }
  PodId id = 0;
  if (found != by_uid_.end()) {
    id = found->second;
    Pod& before = pods_[id];
    detach(id);
    const bool moved = node_name(before.node) != spec.node_name;
    if (moved) {
      left(before.node);
    }
    // Another client may have bound a pod that has only a hold.
    if (moved || before.state == PodState::kReserved) {
      before.shares.clear();
      before.kept.clear();
      before.started = false;
    }
    ++before.generation;
  } else {
    id = add_pod({.namespace_name = {}, .name = {}, .uid = spec.uid});
  }
  Pod& pod = pods_[id];
  pod.state = source == PodSource::kWatch ? PodState::kBound : PodState::kAssumed;
  read_record(id, spec);
  // Most pods have no GPUs and count only with their CPU and memory, so their names are not stored.
  const bool needs_name = pod.units > 0 || pod.whole > 0 || pod.record_problem;
  pod.key.namespace_name = needs_name ? spec.namespace_name : std::string();
  pod.key.name = needs_name ? spec.name : std::string();
  attach(id, node_id(spec.node_name));
}

void Ledger::upsert_unreadable_pod(const PodKey& pod, std::string_view node, std::string why) {
  if (pod.uid.empty() || node.empty() || by_uid_.contains(pod.uid)) {
    return;
  }
  const PodId id = add_pod(pod);
  pods_[id].state = PodState::kBound;
  record_fault(id, ProblemKind::kUnreadablePod, std::move(why));
  attach(id, node_id(node));
}

void Ledger::remove_pod(std::string_view uid) {
  if (const auto found = by_uid_.find(uid); found != by_uid_.end()) {
    drop_pod(found->second);
  }
}

void Ledger::record_fault(PodId id, ProblemKind kind, std::string text) {
  // Keep the first fault: it is from the record that is preferred (see read_record).
  if (!pods_[id].record_problem) {
    pods_[id].record_problem = kind;
    record_faults_[id] = std::move(text);
  }
}

// Reads the request and the record, which do not depend on the node. See ledger.h for what happens
// to the shares of the record before.
void Ledger::read_record(PodId id, const PodSpec& spec) {
  Pod& pod = pods_[id];
  pod.record_problem.reset();
  record_faults_.erase(id);

  pod.started = pod.started || has_started(spec);
  pod.node_use = NodeUse::of_pod(spec);
  const auto request = GpuRequest::of_pod(spec, options_.names);
  if (!request) {
    pod.units = pod.core_percent = pod.whole = 0;
    record_fault(id, ProblemKind::kInvalidRequest, request.error().text());
    return;
  }
  pod.units = to_u32(request->units);
  pod.core_percent = to_u32(request->core_percent);
  pod.whole = to_u32(request->whole);
  if (!request->any()) {
    return;
  }

  std::vector<HeldShare> recorded = recorded_shares(id, spec, *request);
  if (recorded.empty()) {
    if (!pod.shares.empty()) {
      record_faults_[id] = pod.record_problem ? "made invalid" : "removed";
      pod.record_problem = ProblemKind::kChangedRecord;
    }
    return;
  }
  if (pod.started && !pod.shares.empty()) {
    if (pod.kept.empty()) {
      pod.kept = std::move(pod.shares);
    }
    if (same_record(pod.kept, recorded)) {
      pod.kept.clear();
    }
  }
  pod.shares = std::move(recorded);
}

// Returns the shares of tessera.io/allocation if it is valid, else those of the original record.
// Returns no shares if neither is valid.
std::vector<HeldShare> Ledger::recorded_shares(PodId id, const PodSpec& spec, const GpuRequest& request) {
  const auto held = [](std::vector<GpuShare> shares) {
    std::vector<HeldShare> all;
    all.reserve(shares.size());
    for (GpuShare& share : shares) {
      all.push_back({.share = std::move(share)});
    }
    return all;
  };
  if (const std::string* text = find_text(spec.annotations, key::kAllocation)) {
    const auto record = Record::parse(*text);
    if (!record) {
      record_fault(id, ProblemKind::kUnreadableRecord, record.error().text());
    } else if (auto shares = held_shares(request, *record)) {
      return held(std::move(*shares));
    } else {
      record_fault(id, ProblemKind::kWrongRecord,
                   fmt::format("{}: {}", key::kAllocation, shares.error().text()));
    }
  }
  const auto original = original_record(spec.annotations, request);
  if (!original) {
    if (original.error().code() != ErrorCode::kNotFound) {
      record_fault(id, ProblemKind::kWrongRecord, original.error().text());
    }
    return {};
  }
  auto shares = held_shares(request, *original);
  if (!shares) {
    record_fault(id, ProblemKind::kWrongRecord, shares.error().text());
    return {};
  }
  return held(std::move(*shares));
}

void Ledger::attach(PodId id, NodeId node) {
  Pod& pod = pods_[id];
  pod.node = node;
  pod.position = static_cast<std::uint32_t>(nodes_[raw(node)].pods.size());
  nodes_[raw(node)].pods.push_back(id);
  states_.use_node(node, pod.node_use.cpu_milli, pod.node_use.memory_bytes);
  settle(pod);
  check_overcommitment(node);
  check_fence(node);
}

void Ledger::detach(PodId id) {
  Pod& pod = pods_[id];
  unsettle(pod);
  states_.leave_node(pod.node, pod.node_use.cpu_milli, pod.node_use.memory_bytes);
  std::vector<PodId>& list = nodes_[raw(pod.node)].pods;
  list[pod.position] = list.back();
  pods_[list[pod.position]].position = pod.position;
  list.pop_back();
}

// Checks a node that a pod has left.
void Ledger::left(NodeId id) {
  check_overcommitment(id);
  check_fence(id);
  forget_if_unused(id);
}

// Sets the slots of the pod's GPUs on its node, `decided`, `on_only_gpu`, `unrecorded` and
// `problem`.
void Ledger::resolve(Pod& pod) const {
  const Node& node = nodes_[raw(pod.node)];
  const Fence fence = states_.fence(pod.node);
  const bool asks = pod.units > 0 || pod.whole > 0;
  const bool node_known = fence != Fence::kAbsent && fence != Fence::kUnreadable;
  for (std::vector<HeldShare>* shares : {&pod.shares, &pod.kept}) {
    for (HeldShare& held : *shares) {
      const auto index = index_of_name(held.share.gpu);
      const auto found = index ? std::ranges::find(node.gpus, *index, &LedgerGpu::index)
                               : std::ranges::find(node.gpus, GpuUuid(held.share.gpu), &LedgerGpu::uuid);
      held.slot = found == node.gpus.end() ? HeldShare::kNotOnNode
                                           : static_cast<std::int8_t>(found - node.gpus.begin());
    }
  }
  if (!pod.kept.empty() && same_gpus(pod.shares, pod.kept)) {
    // One of them is an original record. Keep the other: the driver may renumber its GPUs.
    if (by_index(pod.shares)) {
      std::swap(pod.shares, pod.kept);
    }
    pod.kept.clear();
  }
  const bool complete = all_on_node(pod.shares);
  const bool unknown_index = !complete && by_index(pod.shares);
  const bool known = (!pod.shares.empty() && !unknown_index) || !pod.kept.empty();
  pod.decided = asks && (known || (unknown_index && !node_known));
  pod.on_only_gpu = asks && !pod.decided && node.gpus.size() == 1;
  // Does not depend on the fence, because the fence depends on it.
  pod.unrecorded = pod.started && !known && node.gpus.size() > 1 &&
                   (asks || pod.record_problem == ProblemKind::kInvalidRequest);
  pod.problem = pod.record_problem;
  if (!asks || pod.problem || !node_known) {
    return;
  }
  if (!pod.kept.empty()) {
    pod.problem = ProblemKind::kChangedRecord;
  } else if (unknown_index) {
    pod.problem = ProblemKind::kUnknownIndex;
  } else if (!complete) {
    pod.problem = ProblemKind::kLostGpu;
  } else if (!pod.decided && !pod.on_only_gpu) {
    pod.problem = ProblemKind::kUndecided;
  }
}

// Returns the shares that a decided pod holds: of each GPU, the larger of `shares` and `kept`.
std::vector<HeldShare> Ledger::counted_shares(const Pod& pod) {
  std::vector<HeldShare> all = pod.shares;
  for (const HeldShare& kept : pod.kept) {
    const auto same = std::ranges::find_if(all, [&](const HeldShare& held) {
      return held.slot == kept.slot &&
             (held.slot != HeldShare::kNotOnNode || held.share.gpu == kept.share.gpu);
    });
    if (same == all.end()) {
      all.push_back(kept);
    } else {
      enlarge(same->share, kept.share);
    }
  }
  return all;
}

// Calls visit(slot, units, core_percent, whole) for each GPU of the node that the pod loads.
template <class Visit>
void Ledger::each_load(const Pod& pod, Visit visit) const {
  if (pod.on_only_gpu) {
    visit(0U, pod.units, pod.core_percent, pod.whole > 0);
    return;
  }
  if (!pod.decided) {
    return;
  }
  const auto visit_all = [&](const std::vector<HeldShare>& shares) {
    for (const HeldShare& held : shares) {
      if (held.slot != HeldShare::kNotOnNode) {
        visit(static_cast<unsigned>(held.slot), held.share.units, held.share.core_percent, held.share.whole);
      }
    }
  };
  if (pod.kept.empty()) {
    visit_all(pod.shares);
  } else {
    visit_all(counted_shares(pod));
  }
}

void Ledger::settle(Pod& pod) {
  const auto before = pod.problem;
  resolve(pod);
  each_load(pod, [&](unsigned slot, std::uint32_t units, std::uint32_t core_percent, bool whole) {
    states_.load(pod.node, slot, units, core_percent, whole);
  });
  nodes_[raw(pod.node)].unrecorded += pod.unrecorded ? 1 : 0;
  if (pod.problem) {
    ++problem_counts_[static_cast<std::size_t>(*pod.problem)];
    problem_totals_[static_cast<std::size_t>(*pod.problem)] += pod.problem == before ? 0 : 1;
  }
}

void Ledger::unsettle(const Pod& pod) {
  each_load(pod, [&](unsigned slot, std::uint32_t units, std::uint32_t core_percent, bool whole) {
    states_.unload(pod.node, slot, units, core_percent, whole);
  });
  nodes_[raw(pod.node)].unrecorded -= pod.unrecorded ? 1 : 0;
  if (pod.problem) {
    --problem_counts_[static_cast<std::size_t>(*pod.problem)];
  }
}

}  // namespace tessera::alloc
