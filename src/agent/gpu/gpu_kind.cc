#include "agent/gpu/gpu_kind.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "alloc/original_record.h"
#include "alloc/request.h"
#include "base/clock.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

// Returns why the container may not start with this decision, which must not be kDecided.
StartBlock block_by(const GpuDecision& decision) {
  switch (decision.verdict) {
    case Verdict::kUndecided:
      return {.reason = "GpuUndecided", .message = decision.message, .counted_as = "undecided"};
    case Verdict::kLostGpu:
      return {.reason = "GpuLost", .message = decision.message, .counted_as = "lost_gpu"};
    case Verdict::kDecided:
    case Verdict::kInvalid:
      break;
  }
  return {.reason = "InvalidGpuRecord", .message = decision.message, .counted_as = "broken_record"};
}

}  // namespace

std::vector<const alloc::PodSpec*> gpu_pods(const NodePods& pods) {
  std::vector<const alloc::PodSpec*> specs;
  for (const NodePod* pod : pods.in_bind_order()) {
    const bool requests_gpus = std::ranges::any_of(
        pod->spec.containers,
        [](const alloc::ContainerSpec& container) { return !container.gpu_limits.empty(); });
    if (requests_gpus) {
      specs.push_back(&pod->spec);
    }
  }
  return specs;
}

GpuKind::GpuKind(const NodeContext& node, const Allocations& allocations, RecordWriter& writer,
                 Options options)
    : DeviceKind(gpu_info(), {node.names.memory(), node.names.whole(), node.names.count()}),
      node_(node),
      allocations_(allocations),
      writer_(writer),
      can_update_(options.can_update),
      leftovers_(options.leftovers),
      files_(std::move(options.files)),
      gate_(node.loop) {}

void GpuKind::set_inventory(const alloc::Inventory& inventory) {
  inventory_ = inventory;
  // Tags are assigned in the order of UUIDs, so that they do not depend on the driver's numbering.
  std::vector<std::string> uuids;
  for (const alloc::Gpu& gpu : inventory.gpus) {
    uuids.push_back(gpu.uuid);
  }
  std::ranges::sort(uuids);
  for (const std::string& uuid : uuids) {
    ids_.tag(uuid);
  }
}

std::vector<ResourceList> GpuKind::lists() {
  const alloc::ResourceNames& names = node_.names;
  GpuLists lists = make_lists(inventory_, ids_);
  // gpu and gpu-count are the same GPUs, so a GPU that is held under one name is listed under both.
  std::vector<std::string> held;
  for (const std::string& resource : {names.whole(), names.count()}) {
    for (const Allocations::HeldId& id : allocations_.held_ids(resource)) {
      if (GpuIds::is_ours(*id.id)) {
        held.push_back(*id.id);
      }
    }
  }
  const bool vanished = add_unlisted(held, lists.whole);
  return {{.resource = names.memory(), .devices = std::move(lists.shares)},
          {.resource = names.whole(), .devices = lists.whole, .has_vanished = vanished},
          {.resource = names.count(), .devices = lists.whole, .has_vanished = vanished}};
}

std::vector<NodeDevice> GpuKind::devices() const {
  return node_devices(inventory_);
}

std::optional<std::string> GpuKind::device_of(const std::string& id) const {
  return GpuIds::is_ours(id) ? std::optional(ids_.gpu_of(id).value_or("")) : std::nullopt;
}

GpuDecision GpuKind::decision_of(const NodePod& pod) const {
  const Result<alloc::GpuRequest> request = alloc::GpuRequest::of_pod(pod.spec, node_.names);
  if (!request) {
    return {.verdict = Verdict::kInvalid,
            .message = request.error().text() +
                       "; no node can satisfy it: delete the pod and create it with a valid request"};
  }
  if (!request->any()) {
    return {};
  }
  GpuDecision decision = tessera::agent::decide(pod.spec, *request, inventory_);
  if (!allocations_.has_started(pod.spec)) {
    return decision;
  }
  return decide_by(given_record(pod.spec, *request, decision.record, allocations_), inventory_);
}

Decision GpuKind::decide(const NodePod& pod, const std::string& container,
                         const IdsByResource& /*ids*/) const {
  GpuDecision decision = decision_of(pod);
  if (decision.verdict == Verdict::kDecided && decision.record.find(container) == nullptr) {
    decision = {.verdict = Verdict::kInvalid,
                .message = fmt::format("the record has no entry for container {}", container)};
  }
  if (decision.verdict != Verdict::kDecided) {
    return tl::unexpected(block_by(decision));
  }
  return decided_by(pod, decision.record, container);
}

// Returns what `record` allocates to a container.
Decided GpuKind::decided_by(const NodePod& pod, const alloc::Record& record,
                            const std::string& container) const {
  const alloc::ResourceNames& names = node_.names;
  const alloc::GpuRequest request = alloc::GpuRequest::of_pod(pod.spec, names).value_or(alloc::GpuRequest{});
  const auto env = alloc::container_env(request, record, inventory_.gpu_names(), container);
  Decided decided{.shares = shares_of(record, container), .env = {env.begin(), env.end()}};
  for (const DeviceShare& share : decided.shares) {
    if (share.whole) {
      decided.wanted[names.whole()].emplace_back(share.device, 1);
      decided.wanted[names.count()].emplace_back(share.device, 1);
    } else {
      decided.wanted[names.memory()].emplace_back(share.device, share.units);
    }
  }
  return decided;
}

Result<Edits> GpuKind::edits(const std::vector<DeviceShare>& shares) {
  std::vector<alloc::Gpu> gpus;
  for (const alloc::Gpu& gpu : inventory_.gpus) {
    if (std::ranges::find(shares, gpu.uuid, &DeviceShare::device) != shares.end()) {
      gpus.push_back(gpu);
    }
  }
  Result<Edits> edits = gpu_edits(files_, gpus);
  if (const std::optional<std::string> warning = files_.take_warning()) {
    log::warn("driver incomplete", {{"error", *warning}});
    node_.events.record(kube::EventNote::about_node(node_.node).as_warning("GpuDriverIncomplete", *warning));
  }
  return edits;
}

// Accepts other GPUs than the record says if they satisfy the pod's request. before_start() then
// repairs the record.
Result<Decided> GpuKind::accept_allocated(const NodePod& pod, const std::string& container,
                                          const Decided& /*decided*/, const Allocation* /*allocated*/) const {
  const alloc::Record record = TRY(record_as_allocated(pod.spec, decision_of(pod).record, allocations_,
                                                       inventory_, node_.names, can_update_));
  return decided_by(pod, record, container);
}

// Returns which GPUs the containers of a pod really have. That is the pod's record, except for
// containers that keep what they were admitted with. Returns nullopt if the pod has not started
// and has no valid record.
std::optional<alloc::Record> GpuKind::actual_record(const NodePod& pod) const {
  const GpuDecision decision = decision_of(pod);
  // A started pod keeps its other GPUs when one of them is lost.
  const bool keeps_rest = decision.verdict == Verdict::kLostGpu && allocations_.has_started(pod.spec);
  if (decision.verdict != Verdict::kDecided && !keeps_rest) {
    return std::nullopt;
  }
  Result<alloc::Record> given =
      record_as_allocated(pod.spec, decision.record, allocations_, inventory_, node_.names, can_update_);
  return given ? *std::move(given) : decision.record;
}

std::optional<Holding> GpuKind::holding_of(const NodePod& pod) const {
  std::optional<alloc::Record> record = actual_record(pod);
  if (!record) {
    return std::nullopt;
  }
  return Holding{.pod = pod.text(),
                 .request = alloc::GpuRequest::of_pod(pod.spec, node_.names).value_or(alloc::GpuRequest{}),
                 .record = *std::move(record)};
}

// Returns whether the pod has started and `record` is what its containers were allocated.
bool GpuKind::keeps_allocated(const NodePod& pod, const alloc::Record& record) const {
  return allocations_.has_started(pod.spec) &&
         std::ranges::all_of(record.containers, [&](const alloc::ContainerShares& container) {
           const Allocation* given = allocations_.find(pod.spec.uid, container.container);
           return given != nullptr && record_shares(given->shares) == container.shares;
         });
}

// Returns the pods that hold their GPUs before `pod` does: those that have started, and those whose
// record is older.
std::vector<Holding> GpuKind::neighbours_of(const NodePod& pod) const {
  std::vector<Holding> neighbours;
  for (const NodePod* other : node_.pods.in_bind_order()) {
    const bool is_later = other->recorded_at >= pod.recorded_at && !allocations_.has_started(other->spec);
    if (other->spec.uid == pod.spec.uid || is_later) {
      continue;
    }
    if (std::optional<Holding> theirs = holding_of(*other)) {
      neighbours.push_back(*std::move(theirs));
    }
  }
  // After a restart of the agent, pods may run that the API server has not listed yet.
  for (const Allocation& allocation : allocations_.all()) {
    if (allocation.started && node_.pods.find(allocation.pod_uid) == nullptr) {
      alloc::ContainerShares given{.container = allocation.container,
                                   .shares = record_shares(allocation.shares)};
      neighbours.push_back({.pod = allocation.pod.namespace_name + "/" + allocation.pod.name,
                            .record = {.containers = {std::move(given)}}});
    }
  }
  return neighbours;
}

std::optional<StartBlock> GpuKind::block_start(const NodePod& pod) const {
  const std::optional<Holding> own = holding_of(pod);
  // A pod that keeps its GPUs does not wait for others.
  if (!own || keeps_allocated(pod, own->record)) {
    return std::nullopt;
  }
  const std::string why = overcommitment(*own, neighbours_of(pod), inventory_);
  return why.empty() ? std::nullopt : std::optional(StartBlock{.reason = "GpuOvercommitted", .message = why});
}

// Returns the changes that make the annotations of the pod name the GPUs that it has. Returns
// kNotFound if these are unknown.
Result<RecordRepair> GpuKind::find_repair(const NodePod& pod) const {
  std::optional<alloc::Record> actual = actual_record(pod);
  const alloc::GpuRequest request = TRY(alloc::GpuRequest::of_pod(pod.spec, node_.names));
  if (!actual) {
    return fail(ErrorCode::kNotFound, "the GPUs of the pod are unknown");
  }
  const auto now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::real().wall().time_since_epoch());
  return repair_of(
      pod.spec, request, inventory_,
      {.truth = *std::move(actual), .started = allocations_.has_started(pod.spec), .now_ns = now.count()});
}

void GpuKind::before_start(const NodePod& pod, const std::string& container, const Done<Status>& done) {
  const bool is_first_start = !allocations_.has_started(pod.spec);
  const std::optional<Holding> own = holding_of(pod);
  std::vector<Holding> others =
      is_first_start && leftovers_ != nullptr ? leftovers_->candidates() : std::vector<Holding>();
  if (others.empty() || !own) {
    write_record(pod, container, is_first_start, done);
    return;
  }
  std::ranges::move(neighbours_of(pod), std::back_inserter(others));
  // Ask the driver only if a process of a deleted pod could be in the way.
  if (overcommitment(*own, others, inventory_).empty()) {
    write_record(pod, container, is_first_start, done);
    return;
  }
  leftovers_->find([this, pod, own = *own, container, done](const Result<std::vector<Leftover>>& found) {
    if (!found) {
      done(fail(found.error()));
    } else if (const auto block = leftover_block(pod, own, *found)) {
      node_.warn_pod(pod, block->reason, block->message);
      done(fail(ErrorCode::kUnavailable, fmt::format("pod {}: {}", pod.text(), block->message)));
    } else {
      write_record(pod, container, true, done);
    }
  });
}

// Returns why the pod may not start while the processes in `found` run.
std::optional<StartBlock> GpuKind::leftover_block(const NodePod& pod, const Holding& own,
                                                  const std::vector<Leftover>& found) const {
  std::vector<Holding> others = neighbours_of(pod);
  for (const Leftover& leftover : found) {
    others.push_back(leftover.holding);
    if (!overcommitment(own, others, inventory_).empty()) {
      return StartBlock{
          .reason = "GpuStillInUse",
          .message = fmt::format("process {} of pod {}, which was deleted, still uses the GPU; the container "
                                 "starts when that process has ended, so end it on the node if it does not",
                                 leftover.pid, leftover.holding.pod)};
    }
  }
  return std::nullopt;
}

// Makes the record name the GPUs that the pod has.
void GpuKind::write_record(const NodePod& pod, const std::string& container, bool is_first_start,
                           const Done<Status>& done) {
  const Result<RecordRepair> repair = find_repair(pod);
  if (!repair || repair->annotations.empty()) {
    done({});
    return;
  }
  if (repair->changes_gpus && is_first_start) {
    repair_and_start(pod, container, *repair, done);
    return;
  }
  // The extender's ledger is correct without this write, so the container does not wait for it. If
  // the write fails, RecordGuard repeats it.
  writer_.write(pod, *repair, [](const Status&) {});
  done({});
}

// Returns whether Tessera's agent admitted the pod. Other pods got their GPUs from an original
// plugin that ran here before, and keep its annotations.
bool GpuKind::was_admitted_here(const NodePod& pod) const {
  return std::ranges::any_of(pod.spec.containers, [&](const alloc::ContainerSpec& container) {
    const Allocation* allocation = allocations_.find(pod.spec.uid, container.name);
    return allocation != nullptr && std::ranges::any_of(allocation->ids, [](const auto& entry) {
             return std::ranges::any_of(entry.second, GpuIds::is_ours);
           });
  });
}

bool GpuKind::repair_started(const NodePod& pod, Done<Status> done) {
  if (!allocations_.has_started(pod.spec) || !was_admitted_here(pod)) {
    return false;
  }
  const Result<RecordRepair> repair = find_repair(pod);
  if (!repair || repair->annotations.empty()) {
    return false;
  }
  const bool changes_record = repair->annotations.contains(std::string(alloc::key::kAllocation));
  writer_.write(
      pod, *repair,
      gate_.wrap<Status>([this, pod, changes_record, done = std::move(done)](const Status& written) {
        if (written && changes_record) {
          ++counts_.repaired;
          node_.warn_pod(pod, "GpuRecordRepaired",
                         "the record of this running pod did not name the GPUs that its containers "
                         "have; the agent has written it again");
        }
        done(written);
      }));
  return true;
}

// Writes the record before the container starts, because the extender builds its ledger from
// records and this record names GPUs that the pod does not have.
void GpuKind::repair_and_start(const NodePod& pod, const std::string& container, const RecordRepair& repair,
                               Done<Status> done) {
  log::warn("record differs from the allocation", {{"pod", pod.text()}, {"container", container}});
  writer_.write(
      pod, repair, gate_.wrap<Status>([this, pod, container, done = std::move(done)](const Status& written) {
        if (!written) {
          done(fail(ErrorCode::kUnavailable, fmt::format("pod {}: the record could not be repaired: {}",
                                                         pod.text(), written.error().text())));
          return;
        }
        ++counts_.repaired;
        node_.warn_pod(pod, "GpuRecordRepaired",
                       fmt::format("container {} was admitted with other GPUs than those in its record; the "
                                   "record now names the GPUs that it has",
                                   container));
        done({});
      }));
}

}  // namespace tessera::agent
