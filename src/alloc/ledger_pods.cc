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
  by_uid_.erase(pod.key.uid);
  record_faults_.erase(id);
  const std::uint32_t generation = pod.generation;
  pod = Pod{};
  pod.generation = generation + 1;
  unused_pods_.push_back(id);
}

void Ledger::upsert_pod(const PodSpec& spec) {
  if (spec.uid.empty()) {
    return;  // a pod from an API server always has a UID
  }
  const auto found = by_uid_.find(spec.uid);
  const bool over = !occupies(spec);
  // If an unbound pod has a hold, the watch has not shown its bind yet: keep the hold.
  if (spec.node_name.empty() && !over) {
    return;
  }
  if (over) {
    remove_pod(spec.uid);
    return;
  }
  PodId id = 0;
  if (found != by_uid_.end()) {
    id = found->second;
    detach(id);
    ++pods_[id].generation;
  } else {
    id = add_pod({.namespace_name = {}, .name = {}, .uid = spec.uid});
  }
  Pod& pod = pods_[id];
  pod.state = PodState::kBound;
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

// Reads the request and the record, which do not depend on the node. Uses tessera.io/allocation if
// it is valid, else the original record.
void Ledger::read_record(PodId id, const PodSpec& spec) {
  Pod& pod = pods_[id];
  pod.shares.clear();
  pod.from_index = false;
  pod.record_problem.reset();
  record_faults_.erase(id);

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

  const auto keep = [&pod](std::vector<GpuShare> shares) {
    pod.shares.reserve(shares.size());
    for (GpuShare& share : shares) {
      pod.shares.push_back({.share = std::move(share)});
    }
  };
  if (const std::string* text = find_text(spec.annotations, key::kAllocation)) {
    const auto record = Record::parse(*text);
    if (!record) {
      record_fault(id, ProblemKind::kUnreadableRecord, record.error().text());
    } else if (auto shares = held_shares(*request, *record)) {
      keep(std::move(*shares));
      return;
    } else {
      record_fault(id, ProblemKind::kWrongRecord,
                   fmt::format("{}: {}", key::kAllocation, shares.error().text()));
    }
  }
  const auto original = original_record(spec.annotations, *request);
  if (!original) {
    if (original.error().code() != ErrorCode::kNotFound) {
      record_fault(id, ProblemKind::kWrongRecord, original.error().text());
    }
    return;
  }
  auto shares = held_shares(*request, *original);
  if (!shares) {
    record_fault(id, ProblemKind::kWrongRecord, shares.error().text());
    return;
  }
  pod.from_index = true;
  keep(std::move(*shares));
}

void Ledger::attach(PodId id, NodeId node) {
  Pod& pod = pods_[id];
  pod.node = node;
  pod.position = static_cast<std::uint32_t>(nodes_[raw(node)].pods.size());
  nodes_[raw(node)].pods.push_back(id);
  states_.use_node(node, pod.node_use.cpu_milli, pod.node_use.memory_bytes);
  settle(pod);
  check_overcommitment(node);
  check_inventory(node);
}

void Ledger::detach(PodId id) {
  Pod& pod = pods_[id];
  const NodeId node = pod.node;
  unsettle(pod);
  states_.leave_node(node, pod.node_use.cpu_milli, pod.node_use.memory_bytes);
  std::vector<PodId>& list = nodes_[raw(node)].pods;
  list[pod.position] = list.back();
  pods_[list[pod.position]].position = pod.position;
  list.pop_back();
  check_overcommitment(node);
  check_inventory(node);
  forget_if_unused(node);
}

// Sets the slots of the pod's GPUs on its node, `decided`, `on_only_gpu` and `problem`.
void Ledger::resolve(Pod& pod) const {
  const Node& node = nodes_[raw(pod.node)];
  const Fence fence = states_.fence(pod.node);
  const bool asks = pod.units > 0 || pod.whole > 0;
  const bool node_known = fence != Fence::kAbsent && fence != Fence::kUnreadable;
  bool complete = true;
  for (HeldShare& held : pod.shares) {
    const auto index = pod.from_index ? index_of_name(held.share.gpu) : std::nullopt;
    const auto found = index ? std::ranges::find(node.gpus, *index, &LedgerGpu::index)
                             : std::ranges::find(node.gpus, GpuUuid(held.share.gpu), &LedgerGpu::uuid);
    held.slot = found == node.gpus.end() ? HeldShare::kNotOnNode
                                         : static_cast<std::int8_t>(found - node.gpus.begin());
    complete = complete && held.slot != HeldShare::kNotOnNode;
  }
  pod.decided = asks && !pod.shares.empty() && (complete || !pod.from_index || !node_known);
  pod.on_only_gpu = asks && !pod.decided && node.gpus.size() == 1;
  pod.problem = pod.record_problem;
  if (!asks || pod.problem || !node_known) {
    return;
  }
  if (pod.from_index && !complete) {
    pod.problem = ProblemKind::kUnknownIndex;
  } else if (!complete) {
    pod.problem = ProblemKind::kLostGpu;
  } else if (!pod.decided && !pod.on_only_gpu) {
    pod.problem = ProblemKind::kUndecided;
  }
}

void Ledger::settle(Pod& pod) {
  const auto before = pod.problem;
  resolve(pod);
  if (pod.on_only_gpu) {
    states_.load(pod.node, 0, pod.units, pod.core_percent, pod.whole > 0);
  } else if (pod.decided) {
    for (const HeldShare& held : pod.shares) {
      if (held.slot != HeldShare::kNotOnNode) {
        states_.load(pod.node, static_cast<unsigned>(held.slot), held.share.units, held.share.core_percent,
                     held.share.whole);
      }
    }
  }
  if (pod.problem) {
    ++problem_counts_[static_cast<std::size_t>(*pod.problem)];
    problem_totals_[static_cast<std::size_t>(*pod.problem)] += pod.problem == before ? 0 : 1;
  }
}

void Ledger::unsettle(Pod& pod) {
  if (pod.on_only_gpu) {
    states_.unload(pod.node, 0, pod.units, pod.core_percent, pod.whole > 0);
  } else if (pod.decided) {
    for (const HeldShare& held : pod.shares) {
      if (held.slot != HeldShare::kNotOnNode) {
        states_.unload(pod.node, static_cast<unsigned>(held.slot), held.share.units, held.share.core_percent,
                       held.share.whole);
      }
    }
  }
  if (pod.problem) {
    --problem_counts_[static_cast<std::size_t>(*pod.problem)];
  }
}

}  // namespace tessera::alloc
