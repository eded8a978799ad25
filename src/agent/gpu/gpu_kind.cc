#include "agent/gpu/gpu_kind.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
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
  return request->any() ? tessera::agent::decide(pod.spec, *request, inventory_) : GpuDecision{};
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
// containers that keep what they were admitted with. Returns nullopt if the pod has no valid
// record.
std::optional<alloc::Record> GpuKind::actual_record(const NodePod& pod) const {
  const GpuDecision decision = decision_of(pod);
  if (decision.verdict != Verdict::kDecided) {
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

std::optional<StartBlock> GpuKind::block_start(const NodePod& pod) const {
  // A pod that has started holds its GPUs already. Only pods that have not started wait for others.
  const std::optional<Holding> own = pod.started() ? std::nullopt : holding_of(pod);
  if (!own) {
    return std::nullopt;
  }
  std::vector<Holding> neighbours;
  for (const NodePod* other : node_.pods.in_bind_order()) {
    if (other->spec.uid == pod.spec.uid || (other->bound_at >= pod.bound_at && !other->started())) {
      continue;
    }
    if (std::optional<Holding> theirs = holding_of(*other)) {
      neighbours.push_back(*std::move(theirs));
    }
  }
  const std::string why = overcommitment(*own, neighbours, inventory_);
  return why.empty() ? std::nullopt : std::optional(StartBlock{.reason = "GpuOvercommitted", .message = why});
}

void GpuKind::before_start(const NodePod& pod, const std::string& container, Done<Status> done) {
  const std::optional<alloc::Record> actual = actual_record(pod);
  const Result<alloc::GpuRequest> request = alloc::GpuRequest::of_pod(pod.spec, node_.names);
  if (!actual || !request) {
    done({});
    return;
  }
  const auto now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::real().wall().time_since_epoch());
  const Result<RecordRepair> repair = repair_of(pod.spec, *request, *actual, inventory_, now.count());
  if (repair && repair->changes_gpus && !repair->annotations.empty()) {
    repair_and_start(pod, container, *repair, std::move(done));
    return;
  }
  if (repair && !repair->annotations.empty()) {
    // The extender's ledger is correct without this write, so the container does not wait for it.
    writer_.write(pod, *repair, [](const Status&) {});
  }
  done({});
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
