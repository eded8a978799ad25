// PreStartContainer: once more, is this container about to see what was decided for it? An error here is
// soft. kubelet shows it to the user and asks again, after about a second and then every ten.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <ranges>
#include <set>

#include "agent/gpu_allocator.h"
#include "agent/overcommitment.h"
#include "agent/record_repair.h"
#include "alloc/legacy_record.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

constexpr std::chrono::milliseconds kGetDeadline{2'000};
constexpr std::chrono::milliseconds kPause{30};
constexpr int kTries = 100;  // 3 s of kubelet being busy

std::string name_of(const alloc::Gpu& gpu) {
  return fmt::format("GPU {} ({})", gpu.index, gpu.uuid);
}

bool holds(const PodDevices& devices, const std::string& container, const std::string& resource,
           const std::vector<std::string>& ids) {
  const auto found = devices.containers.find(container);
  if (found == devices.containers.end()) {
    return false;
  }
  const auto held = found->second.find(resource);
  return held != found->second.end() && held->second == ids;
}

}  // namespace

struct GpuAllocator::Starting {
  std::string resource;
  std::vector<std::string> ids;  // sorted
  std::function<void(Status)> done;
  std::vector<std::string> suspects;  // UIDs of pods that may hold the IDs, still to be asked for
  int tries = 0;
  http::Timer pause;
};

void GpuAllocator::pre_start(alloc::GpuResource resource, std::vector<std::string> ids,
                             std::function<void(Status)> done) {
  std::ranges::sort(ids);
  // Pods that another plugin admitted under this name before us start again as they were.
  if (std::ranges::none_of(ids, [](const std::string& id) { return GpuIds::is_ours(id); })) {
    done({});
    return;
  }
  auto starting = std::make_shared<Starting>();
  starting->resource = pods_.names().name(resource);
  starting->ids = std::move(ids);
  starting->done = std::move(done);
  start(starting);
}

void GpuAllocator::start(const std::shared_ptr<Starting>& starting) {
  const Allocation* allocation = starting_allocation(*starting);
  if (allocation != nullptr) {
    verify(starting, *allocation);
    return;
  }
  if (const auto holder = holder_by_checkpoint(*starting, "", "")) {
    PodDevices devices;
    devices.containers[holder->second][starting->resource] = starting->ids;
    learn(*holder->first, devices);
    let_start(starting, *holder->first, holder->second);
    return;
  }
  for (const NodePod* pod : pods_.in_bind_order()) {
    starting->suspects.push_back(pod->spec.uid);
  }
  std::ranges::reverse(starting->suspects);  // the oldest is asked for first, from the back
  look_for_holder(starting);
}

// Whom the IDs were given to; null when that is not known. kubelet uses the IDs of init containers again, so
// several containers of a pod may have them: the one that starts is the first of the pod that does not run.
const Allocation* GpuAllocator::starting_allocation(const Starting& starting) const {
  const Allocation* best = nullptr;
  std::pair<bool, std::ptrdiff_t> best_place;  // whether it runs; where it stands in its pod
  for (const Allocation* allocation : allocations_.with_ids(starting.resource, starting.ids)) {
    const NodePod* pod = pods_.find(allocation->pod_uid);
    if (pod == nullptr) {
      continue;
    }
    const auto spec =
        std::ranges::find(pod->spec.containers, allocation->container, &alloc::ContainerSpec::name);
    const bool runs =
        spec == pod->spec.containers.end() || spec->state == alloc::ContainerState::kRunning ||
        (spec->kind == alloc::ContainerKind::kInit && spec->state == alloc::ContainerState::kTerminated);
    const std::pair place{runs, spec - pod->spec.containers.begin()};
    if (best == nullptr || place < best_place) {
      best = allocation;
      best_place = place;
    }
  }
  return best;
}

void GpuAllocator::verify(const std::shared_ptr<Starting>& starting, const Allocation& allocation) {
  edges_.get(allocation.pod, kGetDeadline,
             gate_.wrap<Result<PodDevices>>(
                 [this, starting, uid = allocation.pod_uid, container = allocation.container](
                     const Result<PodDevices>& answer) { verified(starting, uid, container, answer); }));
}

void GpuAllocator::verified(const std::shared_ptr<Starting>& starting, const std::string& uid,
                            const std::string& container, const Result<PodDevices>& answer) {
  const NodePod* pod = pods_.find(uid);
  if (pod == nullptr) {
    finish(starting, fail(ErrorCode::kUnavailable, "the pod has ended"));
    return;
  }
  if (!answer && answer.error().code() == ErrorCode::kExhausted && ++starting->tries < kTries) {
    starting->pause = loop_.after(kPause, [this, starting] { start(starting); });
    return;
  }
  if (answer && holds(*answer, container, starting->resource, starting->ids)) {
    let_start(starting, *pod, container);
    return;
  }
  // Init containers are not in kubelet's answer, a kubelet that has just started knows no pod, and an old one
  // has no Get: what is not told is no contradiction. The checkpoint has the last word.
  const auto holder = holder_by_checkpoint(*starting, uid, container);
  if (!holder || holder->first == pod) {
    let_start(starting, *pod, holder ? holder->second : container);
    return;
  }
  log::warn("the container that starts is not the one that was served",
            {{"pod", holder->first->text()}, {"container", holder->second}, {"served", pod->text()}});
  put_right();
  let_start(starting, *holder->first, holder->second);
}

std::optional<std::pair<const NodePod*, std::string>> GpuAllocator::holder_by_checkpoint(
    const Starting& starting, const std::string& likely_uid, const std::string& likely_container) const {
  const Result<Checkpoint> checkpoint = edges_.checkpoint();
  std::optional<std::pair<const NodePod*, std::string>> found;
  if (!checkpoint) {
    return found;
  }
  for (const CheckpointEntry* entry : checkpoint->holders(starting.resource, starting.ids)) {
    const NodePod* pod = pods_.find(entry->pod_uid);
    if (pod == nullptr) {
      continue;
    }
    found = {pod, entry->container};
    if (entry->pod_uid == likely_uid && entry->container == likely_container) {
      break;
    }
  }
  return found;
}

// The IDs are ours and we do not know whose they are: given while the pod was unknown, or the record was
// lost. kubelet knows.
void GpuAllocator::look_for_holder(const std::shared_ptr<Starting>& starting) {
  if (starting->suspects.empty()) {
    finish(starting, fail(ErrorCode::kUnavailable,
                          "which pod these GPU devices belong to is not known yet; waiting for the API "
                          "server to tell the pods of this node"));
    return;
  }
  const NodePod* pod = pods_.find(starting->suspects.back());
  if (pod == nullptr) {
    starting->suspects.pop_back();
    look_for_holder(starting);
    return;
  }
  edges_.get(
      pod->name(), kGetDeadline,
      gate_.wrap<Result<PodDevices>>([this, starting, uid = pod->spec.uid](const Result<PodDevices>& answer) {
        const NodePod* known = pods_.find(uid);
        if (!answer && answer.error().code() == ErrorCode::kExhausted && ++starting->tries < kTries) {
          starting->pause = loop_.after(kPause, [this, starting] { look_for_holder(starting); });
          return;
        }
        starting->suspects.pop_back();
        if (answer && known != nullptr) {
          for (const auto& [container, resources] : answer->containers) {
            if (holds(*answer, container, starting->resource, starting->ids)) {
              learn(*known, *answer);
              let_start(starting, *known, container);
              return;
            }
          }
        }
        look_for_holder(starting);
      }));
}

void GpuAllocator::let_start(const std::shared_ptr<Starting>& starting, const NodePod& pod,
                             const std::string& container) {
  allocations_.confirm(pod.spec.uid, container);
  RecordRepair repair;
  Status status = may_start(pod, container, repair);
  if (status && !repair.annotations.empty() && edges_.repair) {
    if (repair.moves) {
      repair_and_start(starting, pod, container, repair);
      return;
    }
    // The books are right without it, so nobody waits.
    edges_.repair(pod, repair, [](const Status&) {});
  }
  let_start_as(starting, pod.spec.uid, container, std::move(status));
}

void GpuAllocator::let_start_as(const std::shared_ptr<Starting>& starting, const std::string& uid,
                                const std::string& container, Status status) {
  allocations_.hold(uid, container, status ? "" : status.error().text());
  changed();
  finish(starting, std::move(status));
}

// The pod has other GPUs than its record says, and the record is what the books are made of: it is written
// first. Who asks meanwhile (kubelet gives up after 30 s and asks again) waits for the same.
void GpuAllocator::repair_and_start(const std::shared_ptr<Starting>& starting, const NodePod& pod,
                                    const std::string& container, const RecordRepair& repair) {
  log::warn("record differs from what was given", {{"pod", pod.text()}, {"container", container}});
  edges_.repair(pod, repair, gate_.wrap<Status>([this, starting, pod, container](const Status& written) {
    if (!written) {
      let_start_as(starting, pod.spec.uid, container,
                   fail(ErrorCode::kUnavailable, fmt::format("pod {}: its record must be put right first: {}",
                                                             pod.text(), written.error().text())));
      return;
    }
    ++counts_.repaired;
    edges_.tell(pod, "GpuRecordRepaired",
                fmt::format("container {} was admitted with other GPUs than decided; the record of the "
                            "pod was put right to what it has",
                            container));
    let_start_as(starting, pod.spec.uid, container, {});
  }));
}

void GpuAllocator::finish(const std::shared_ptr<Starting>& starting, Status status) {
  ++(status ? counts_.started : counts_.held);
  starting->done(std::move(status));
}

// `repair`: what is to be written to the pod's annotations when it may.
Status GpuAllocator::may_start(const NodePod& pod, const std::string& container, RecordRepair& repair) {
  const auto hold = [&](const std::string& reason, const std::string& why) {
    edges_.tell(pod, reason, why);
    return fail(ErrorCode::kUnavailable, fmt::format("pod {}: {}", pod.text(), why));
  };
  const Decision decision = decision_of(pod);
  switch (decision.verdict) {
    case Verdict::kDecided:
      break;
    case Verdict::kUndecided:
      return hold("GpuUndecided", decision.why);
    case Verdict::kBroken:
      return hold("GpuRecordNotBelieved", decision.why);
    case Verdict::kLostGpu:
      return hold("GpuLost", decision.why);
  }
  if (decision.record.find(container) == nullptr) {
    return hold("GpuRecordNotBelieved", fmt::format("nothing was decided for container {}", container));
  }
  const Result<alloc::Record> record = mended(pod, container, decision.record);
  if (!record) {
    return hold("GpuGivenOtherwise", record.error().text());
  }
  const std::vector<alloc::Grant>& grants = record->find(container)->grants;
  for (const alloc::Grant& grant : grants) {
    const auto found = inventory_.find_uuid(grant.gpu);
    if (found && !inventory_.gpus[*found].healthy()) {
      const alloc::Gpu& gpu = inventory_.gpus[*found];
      return hold("GpuUnhealthy",
                  fmt::format("{} is unhealthy ({}); the container waits until it is well, or "
                              "delete the pod so that another GPU is chosen",
                              name_of(gpu), gpu.unhealthy));
    }
  }
  if (const std::string why = overcommitment(pod, *record); !why.empty()) {
    return hold("GpuOvercommitted", why);
  }
  const Allocation* given = allocations_.find(pod.spec.uid, container);
  if (given != nullptr && !given->fault.empty()) {
    return hold(
        "GpuNotPrepared",
        fmt::format("{}; when that is repaired, delete the pod so that it is admitted again", given->fault));
  }
  if (const Status ready = make_ready(pod, container, *record); !ready) {
    return hold("GpuNotPrepared", ready.error().text());
  }
  make_others_ready(pod, container, *record);
  const auto now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::real().wall().time_since_epoch());
  if (Result<RecordRepair> due = repair_of(pod, *record, inventory_, now.count())) {
    repair = *std::move(due);
  }
  return {};
}

Status GpuAllocator::make_ready(const NodePod& pod, const std::string& container,
                                const alloc::Record& record) {
  ContainerGpus gpus = gpus_for(pod, container, record.find(container)->grants);
  const auto env = alloc::container_env(pod.demand, record, inventory_.gpu_names(), container);
  gpus.env.insert(env.begin(), env.end());
  if (const Allocation* given = allocations_.find(pod.spec.uid, container)) {
    const auto names = std::views::values(given->cdi_names);
    const std::set<std::string> different(names.begin(), names.end());
    gpus.cdi_names.assign(different.begin(), different.end());
    gpus.fixed = given->fixed;
  }
  return strategy_.before_start(gpus);
}

// An init container ends and the next one starts with its IDs before the API server has told the end: which
// of them it is may be a wrong guess, so those with the same IDs are made ready, too.
void GpuAllocator::make_others_ready(const NodePod& pod, const std::string& container,
                                     const alloc::Record& record) {
  const Allocation* given = allocations_.find(pod.spec.uid, container);
  if (given == nullptr || !strategy_.can_mend()) {
    return;
  }
  for (const auto& [resource, ids] : given->ids) {
    for (const Allocation* other : allocations_.with_ids(resource, ids)) {
      if (other->pod_uid == pod.spec.uid && other->container != container &&
          record.find(other->container) != nullptr) {
        if (const Status ready = make_ready(pod, other->container, record); !ready) {
          log::warn("container not made ready",
                    {{"pod", pod.text()}, {"container", other->container}, {"why", ready.error()}});
        }
      }
    }
  }
}

// What was given at admission and what is decided differ: the guess was wrong then, the watch was late, or
// the record was changed since. Where what a container sees can still be changed, the decision wins. Where it
// cannot, the record is put right to what the pod has, if that is what it asked for.
Result<alloc::Record> GpuAllocator::mended(const NodePod& pod, const std::string& container,
                                           const alloc::Record& decided) {
  const Allocation* given = allocations_.find(pod.spec.uid, container);
  if (!strategy_.can_mend()) {
    Result<alloc::Record> record = record_as_given(pod, decided, allocations_, inventory_, pods_.names());
    if (!record) {
      return fail(
          ErrorCode::kUnavailable,
          fmt::format("container {} was admitted with {} and other GPUs are decided for it by now ({}); "
                      "kubelet keeps what it was given, so delete the pod and let it be created again",
                      container,
                      given == nullptr || given->grants.empty() ? "no GPU" : given->grants.front().gpu,
                      record.error().text()));
    }
    return record;
  }
  const std::vector<alloc::Grant>& grants = decided.find(container)->grants;
  if (given != nullptr && given->grants != grants) {
    Allocation mended = *given;
    mended.grants = grants;
    mended.held.clear();
    allocations_.give(mended);
  }
  return decided;
}

// What the containers of a pod have, as far as that is settled: by its record, or, where kubelet keeps what
// was given at admission, by that.
std::optional<alloc::Record> GpuAllocator::truth_of(const NodePod& pod) const {
  const Decision decision = decision_of(pod);
  if (decision.verdict != Verdict::kDecided) {
    return std::nullopt;
  }
  if (!strategy_.can_mend()) {
    if (Result<alloc::Record> given =
            record_as_given(pod, decision.record, allocations_, inventory_, pods_.names())) {
      return *std::move(given);
    }
  }
  return decision.record;
}

std::string GpuAllocator::overcommitment(const NodePod& pod, const alloc::Record& record) const {
  // Only pods that have not begun are held for it: one that runs was there first.
  if (pod.started()) {
    return {};
  }
  std::vector<Neighbour> neighbours;
  for (const NodePod* other : pods_.in_bind_order()) {
    if (other->spec.uid == pod.spec.uid || (other->bound_at >= pod.bound_at && !other->started())) {
      continue;
    }
    if (std::optional<alloc::Record> theirs = truth_of(*other)) {
      neighbours.push_back({.pod = other, .record = *std::move(theirs)});
    }
  }
  return tessera::agent::overcommitment(pod, record, neighbours, inventory_);
}

}  // namespace tessera::agent
