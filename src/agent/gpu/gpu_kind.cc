#include "agent/gpu/gpu_kind.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/devices/allocator.h"
#include "agent/gpu/gpu_edits.h"
#include "agent/gpu/gpu_lists.h"
#include "agent/gpu/gpu_text.h"
#include "agent/gpu/overcommitment.h"
#include "alloc/original_record.h"
#include "alloc/request.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"

namespace tessera::agent {

namespace {

Hold hold_by(const GpuDecision& decision) {
  switch (decision.verdict) {
    case Verdict::kUndecided:
      return {.reason = "GpuUndecided", .why = decision.why, .counted_as = "undecided"};
    case Verdict::kLostGpu:
      return {.reason = "GpuLost", .why = decision.why, .counted_as = "lost_gpu"};
    case Verdict::kDecided:
    case Verdict::kBroken:
      break;
  }
  return {.reason = "InvalidGpuRecord", .why = decision.why, .counted_as = "broken_record"};
}

bool asks_for_gpu(const alloc::PodSpec& pod) {
  return std::ranges::any_of(
      pod.containers, [](const alloc::ContainerSpec& container) { return !container.gpu_limits.empty(); });
}

}  // namespace

GpuKind::GpuKind(http::EventLoop& loop, const alloc::ResourceNames& names, const NodePods& pods,
                 const Allocations& book, Options options, Edges edges)
    : names_(names),
      pods_(pods),
      book_(book),
      mends_(options.mends),
      files_(std::move(options.files)),
      edges_(std::move(edges)),
      gate_(loop) {}

void GpuKind::set_inventory(const alloc::Inventory& inventory) {
  inventory_ = inventory;
  // Tags are given in the order of UUIDs, so that they do not depend on how the driver counts.
  std::vector<std::string> uuids;
  for (const alloc::Gpu& gpu : inventory.gpus) {
    uuids.push_back(gpu.uuid);
  }
  std::ranges::sort(uuids);
  for (const std::string& uuid : uuids) {
    ids_.tag(uuid);
  }
}

const KindWords& GpuKind::words() const {
  return gpu_words();
}

std::vector<std::string> GpuKind::resources() const {
  return {names_.memory(), names_.whole(), names_.count()};
}

std::vector<ResourceList> GpuKind::lists() {
  GpuLists lists = make_lists(inventory_, ids_);
  // Both names stand for the same GPUs: one that is held by either counts in both.
  std::vector<std::string> held;
  for (const std::string& resource : {names_.whole(), names_.count()}) {
    book_.each_id(resource, [&](const Allocation&, const std::string& id) {
      if (GpuIds::is_ours(id)) {
        held.push_back(id);
      }
    });
  }
  const bool vanished = add_unlisted(held, lists.whole);
  return {{.resource = names_.memory(), .devices = std::move(lists.shares)},
          {.resource = names_.whole(), .devices = lists.whole, .has_vanished = vanished},
          {.resource = names_.count(), .devices = lists.whole, .has_vanished = vanished}};
}

std::vector<NodeDevice> GpuKind::devices() const {
  return node_devices(inventory_);
}

std::optional<std::string> GpuKind::device_of(const std::string& id) const {
  return ids_.gpu_of(id);
}

bool GpuKind::is_ours(const std::string& id) const {
  return GpuIds::is_ours(id);
}

std::vector<const alloc::PodSpec*> GpuKind::pods() const {
  std::vector<const alloc::PodSpec*> specs;
  for (const NodePod* pod : pods_.in_bind_order()) {
    if (asks_for_gpu(pod->spec)) {
      specs.push_back(&pod->spec);
    }
  }
  return specs;
}

GpuDecision GpuKind::decision_of(const NodePod& pod) const {
  const Result<alloc::GpuRequest> request = alloc::GpuRequest::of_pod(pod.spec, names_);
  if (!request) {
    return {.verdict = Verdict::kBroken,
            .why = request.error().text() + "; nobody can give that: delete the pod and create it right"};
  }
  return request->any() ? tessera::agent::decide(pod.spec, *request, inventory_) : GpuDecision{};
}

Decided GpuKind::decided_by(const NodePod& pod, const alloc::Record& record,
                            const std::string& container) const {
  const alloc::GpuRequest request = alloc::GpuRequest::of_pod(pod.spec, names_).value_or(alloc::GpuRequest{});
  const auto env = alloc::container_env(request, record, inventory_.gpu_names(), container);
  return {.shares = shares_of(record, container), .env = {env.begin(), env.end()}};
}

Decision GpuKind::decide(const NodePod& pod, const std::string& container,
                         const IdsByResource& /*ids*/) const {
  GpuDecision decision = decision_of(pod);
  if (decision.verdict == Verdict::kDecided && decision.record.find(container) == nullptr) {
    decision = {.verdict = Verdict::kBroken,
                .why = fmt::format("nothing was decided for container {}", container)};
  }
  if (decision.verdict != Verdict::kDecided) {
    return tl::unexpected(hold_by(decision));
  }
  return decided_by(pod, decision.record, container);
}

Env GpuKind::env_of_none() const {
  return {{std::string(alloc::key::kVisibleDevices), "void"}};
}

// Other words than ours, as an index, are of a plugin that was here before us. Where a container of several
// GPUs sees others than decided, how much of which it has is not told: then it has what nobody decided.
std::optional<std::vector<Share>> GpuKind::seen(const Env& handed, const std::vector<Share>& decided) const {
  const auto found = handed.find(std::string(alloc::key::kVisibleDevices));
  if (found == handed.end() || !found->second.starts_with("GPU-")) {
    return DeviceKind::seen(handed, decided);
  }
  const std::vector<std::string_view> uuids = split(found->second, ',');
  const bool same = uuids.size() == decided.size() && std::ranges::all_of(decided, [&](const Share& share) {
                      return std::ranges::find(uuids, share.device) != uuids.end();
                    });
  if (same || decided.empty()) {
    return decided;
  }
  if (uuids.size() != 1 || decided.size() != 1) {
    return std::vector<Share>();
  }
  Share other = decided.front();
  other.device = uuids.front();
  return std::vector{other};
}

Result<Edits> GpuKind::edits(const std::vector<Share>& shares) {
  std::vector<alloc::Gpu> gpus;
  for (const alloc::Gpu& gpu : inventory_.gpus) {
    if (std::ranges::find(shares, gpu.uuid, &Share::device) != shares.end()) {
      gpus.push_back(gpu);
    }
  }
  return gpu_edits(files_, gpus);
}

Wanted GpuKind::wanted(const NodePod& pod, const std::string& container, const std::string& resource) const {
  Wanted wanted;
  const GpuDecision decision = decision_of(pod);
  if (decision.verdict != Verdict::kDecided) {
    return wanted;
  }
  const bool shares = resource == names_.memory();
  for (const Share& share : shares_of(decision.record, container)) {
    if (share.whole != shares) {
      wanted.emplace_back(share.device, share.whole ? 1 : share.units);
    }
  }
  return wanted;
}

// The record is put right to what the pod has, if that is what it asked for.
Result<Decided> GpuKind::as_given(const NodePod& pod, const std::string& container,
                                  const Decided& /*decided*/, const Allocation* /*given*/) const {
  const alloc::Record record =
      TRY(record_as_given(pod.spec, decision_of(pod).record, book_, inventory_, names_, mends_));
  return decided_by(pod, record, container);
}

// By its record, or, where kubelet keeps what was given at admission, by that.
std::optional<alloc::Record> GpuKind::truth_of(const NodePod& pod) const {
  const GpuDecision decision = decision_of(pod);
  if (decision.verdict != Verdict::kDecided) {
    return std::nullopt;
  }
  Result<alloc::Record> given = record_as_given(pod.spec, decision.record, book_, inventory_, names_, mends_);
  return given ? *std::move(given) : decision.record;
}

std::optional<Hold> GpuKind::objection(const NodePod& pod, const std::vector<Share>& /*shares*/) const {
  // Only pods that have not begun are held for it: one that runs was there first.
  if (pod.started()) {
    return std::nullopt;
  }
  const auto holding_of = [this](const NodePod& one) -> std::optional<Holding> {
    std::optional<alloc::Record> record = truth_of(one);
    if (!record) {
      return std::nullopt;
    }
    return Holding{.pod = one.text(),
                   .request = alloc::GpuRequest::of_pod(one.spec, names_).value_or(alloc::GpuRequest{}),
                   .record = *std::move(record)};
  };
  const std::optional<Holding> own = holding_of(pod);
  std::vector<Holding> neighbours;
  for (const NodePod* other : pods_.in_bind_order()) {
    if (other->spec.uid == pod.spec.uid || (other->bound_at >= pod.bound_at && !other->started())) {
      continue;
    }
    if (std::optional<Holding> theirs = holding_of(*other)) {
      neighbours.push_back(*std::move(theirs));
    }
  }
  const std::string why = own ? overcommitment(*own, neighbours, inventory_) : "";
  return why.empty() ? std::nullopt : std::optional(Hold{.reason = "GpuOvercommitted", .why = why});
}

void GpuKind::before_start(const NodePod& pod, const std::string& container,
                           std::function<void(Status)> done) {
  const std::optional<alloc::Record> truth = truth_of(pod);
  const Result<alloc::GpuRequest> request = alloc::GpuRequest::of_pod(pod.spec, names_);
  if (!truth || !request || !edges_.repair) {
    done({});
    return;
  }
  const auto now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::real().wall().time_since_epoch());
  const Result<RecordRepair> repair = repair_of(pod.spec, *request, *truth, inventory_, now.count());
  if (repair && repair->moves && !repair->annotations.empty()) {
    repair_and_start(pod, container, *repair, std::move(done));
    return;
  }
  if (repair && !repair->annotations.empty()) {
    // The ledger is right without it, so nobody waits.
    edges_.repair(pod, *repair, [](const Status&) {});
  }
  done({});
}

// The pod has other GPUs than its record says, and the record is what the ledger is made of: it is written
// first.
void GpuKind::repair_and_start(const NodePod& pod, const std::string& container, const RecordRepair& repair,
                               std::function<void(Status)> done) {
  log::warn("record differs from what was given", {{"pod", pod.text()}, {"container", container}});
  edges_.repair(
      pod, repair, gate_.wrap<Status>([this, pod, container, done = std::move(done)](const Status& written) {
        if (!written) {
          done(fail(ErrorCode::kUnavailable, fmt::format("pod {}: its record must be put right first: {}",
                                                         pod.text(), written.error().text())));
          return;
        }
        ++counts_.repaired;
        edges_.tell(pod, "GpuRecordRepaired",
                    fmt::format("container {} was admitted with other GPUs than decided; the record of the "
                                "pod was put right to what it has",
                                container));
        done({});
      }));
}

}  // namespace tessera::agent
