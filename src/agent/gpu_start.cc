// PreStartContainer: once more, is this container about to see what was decided for it? An error here is
// soft. kubelet shows it to the user and asks again, after about a second and then every ten.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "agent/gpu_allocator.h"
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
// several containers of a pod may have them: the one that starts is the first that does not run.
const Allocation* GpuAllocator::starting_allocation(const Starting& starting) const {
  const Allocation* best = nullptr;
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
    if (best == nullptr || !runs) {
      best = allocation;
    }
    if (!runs) {
      break;
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

// kubelet gave IDs to other pods than we took to be asking: our guess was wrong, which it can be where
// kubelet has no Get. Pods may have been mixed up in a ring, so all are looked at. What each container really
// sees goes with its IDs.
void GpuAllocator::put_right() {
  const Result<Checkpoint> checkpoint = edges_.checkpoint();
  if (!checkpoint) {
    return;
  }
  std::vector<Allocation> right;
  std::vector<std::string> wrong;  // UIDs
  for (const Allocation& allocation : allocations_.all()) {
    for (const auto& [resource, ids] : allocation.ids) {
      const auto holders = checkpoint->holders(resource, ids);
      const auto live = std::ranges::find_if(
          holders, [this](const CheckpointEntry* entry) { return pods_.find(entry->pod_uid) != nullptr; });
      const bool is_right =
          live == holders.end() || std::ranges::any_of(holders, [&](const CheckpointEntry* entry) {
            return entry->pod_uid == allocation.pod_uid;
          });
      if (!is_right) {
        right.push_back({.pod = pods_.find((*live)->pod_uid)->name(),
                         .pod_uid = (*live)->pod_uid,
                         .container = (*live)->container,
                         .grants = allocation.grants,
                         .ids = {{resource, ids}}});
        wrong.push_back(allocation.pod_uid);
      }
    }
  }
  for (const std::string& uid : wrong) {
    allocations_.forget(uid);
  }
  for (const Allocation& allocation : right) {
    allocations_.give(allocation);
  }
  changed();
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
  Status status = may_start(pod, container);
  allocations_.hold(pod.spec.uid, container, status ? "" : status.error().text());
  changed();
  finish(starting, std::move(status));
}

void GpuAllocator::finish(const std::shared_ptr<Starting>& starting, Status status) {
  ++(status ? counts_.started : counts_.held);
  starting->done(std::move(status));
}

Status GpuAllocator::may_start(const NodePod& pod, const std::string& container) {
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
  const alloc::ContainerGrants* decided = decision.record.find(container);
  if (decided == nullptr) {
    return hold("GpuRecordNotBelieved", fmt::format("nothing was decided for container {}", container));
  }
  for (const alloc::Grant& grant : decided->grants) {
    const auto found = inventory_.find_uuid(grant.gpu);
    if (found && !inventory_.gpus[*found].healthy()) {
      const alloc::Gpu& gpu = inventory_.gpus[*found];
      return hold("GpuUnhealthy",
                  fmt::format("{} is unhealthy ({}); the container waits until it is well, or "
                              "delete the pod so that another GPU is chosen",
                              name_of(gpu), gpu.unhealthy));
    }
  }
  if (const std::string why = overcommitment(pod, decision); !why.empty()) {
    return hold("GpuOvercommitted", why);
  }
  if (const Status mended = mend(pod, container, decided->grants); !mended) {
    return hold("GpuGivenOtherwise", mended.error().text());
  }
  const auto fault = strategy_faults_.find(pod.spec.uid + "/" + container);
  if (fault != strategy_faults_.end() && !strategy_.can_mend()) {
    return hold(
        "GpuNotPrepared",
        fmt::format("{}; when that is repaired, delete the pod so that it is admitted again", fault->second));
  }
  ContainerGpus gpus = gpus_for(pod, container, decided->grants);
  const auto env = alloc::container_env(pod.demand, decision.record, inventory_.gpu_names(), container);
  gpus.env.insert(env.begin(), env.end());
  if (const Status ready = strategy_.before_start(gpus); !ready) {
    return hold("GpuNotPrepared", ready.error().text());
  }
  return {};
}

// What was given at admission and what is decided differ: the watch was late then, or the record was
// repaired since.
Status GpuAllocator::mend(const NodePod& pod, const std::string& container,
                          const std::vector<alloc::Grant>& decided) {
  const Allocation* given = allocations_.find(pod.spec.uid, container);
  if (given == nullptr || given->grants == decided) {
    return {};
  }
  if (!strategy_.can_mend()) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("container {} was admitted with {} and other GPUs are decided for it by now; "
                            "kubelet keeps what it was given, so delete the pod and let it be created again",
                            container, given->grants.empty() ? "no GPU" : given->grants.front().gpu));
  }
  Allocation mended = *given;
  mended.grants = decided;
  mended.held.clear();
  allocations_.give(mended);
  return {};
}

// A record that gives away what others hold was not written by a scheduler that knew. Only pods that have
// not begun are held for it: one that runs was there first.
std::string GpuAllocator::overcommitment(const NodePod& pod, const Decision& decision) const {
  if (pod.started()) {
    return {};
  }
  const auto own = alloc::claims_of(pod.demand, decision.record);
  if (!own) {
    return own.error().text();
  }
  struct Load {
    std::uint64_t units = 0;
    bool whole = false;
    std::string who;
  };
  std::map<std::string, Load> before;
  for (const NodePod* other : pods_.in_bind_order()) {
    if (other->spec.uid == pod.spec.uid || (other->bound_at >= pod.bound_at && !other->started())) {
      continue;
    }
    const Decision theirs = decision_of(*other);
    const auto claims = theirs.verdict == Verdict::kDecided ? alloc::claims_of(other->demand, theirs.record)
                                                            : Result<std::vector<alloc::Claim>>();
    if (!claims) {
      continue;
    }
    for (const alloc::Claim& claim : *claims) {
      Load& load = before[claim.gpu];
      load.units += claim.units;
      load.whole = load.whole || claim.whole;
      load.who = other->text();
    }
  }
  for (const alloc::Claim& claim : *own) {
    const auto found = inventory_.find_uuid(claim.gpu);
    const auto load = before.find(claim.gpu);
    if (!found || load == before.end()) {
      continue;
    }
    const bool alone = claim.whole || load->second.whole;
    const std::uint32_t units = inventory_.units(*found);
    if (alone || load->second.units + claim.units > units) {
      return fmt::format(
          "{} is taken: {} of its {} units are held by {} and others, and this pod's record "
          "claims {}; it starts when they end",
          name_of(inventory_.gpus[*found]), load->second.whole ? "all" : std::to_string(load->second.units),
          units, load->second.who, claim.whole ? "all" : std::to_string(claim.units));
    }
  }
  return {};
}

}  // namespace tessera::agent
