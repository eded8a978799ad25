// The first half of StartGate: finds the container for which kubelet calls PreStartContainer.
#include <fmt/core.h>

#include <algorithm>

#include "agent/devices/start_gate.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

constexpr std::chrono::milliseconds kGetDeadline{2'000};
constexpr std::chrono::milliseconds kBusyPause{30};
constexpr int kMaxTries = 100;  // 3 s with kBusyPause

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

// Returns whether to repeat the Get because kubelet has reached its rate limit.
bool StartGate::Start::try_again(const Result<PodDevices>& answer) {
  return !answer && answer.error().code() == ErrorCode::kExhausted && ++tries < kMaxTries;
}

void StartGate::identify(const std::shared_ptr<Start>& start) {
  if (const Allocation* allocation = starting_allocation(*start)) {
    const ContainerName expected{
        .pod = allocation->pod, .pod_uid = allocation->pod_uid, .container = allocation->container};
    context_.node.pod_resources.get(
        expected.pod, kGetDeadline,
        gate_.wrap<Result<PodDevices>>([this, start, expected](const Result<PodDevices>& answer) {
          verified(start, expected, answer);
        }));
    return;
  }
  if (const Allocation* allocation = unlisted_allocation(*start)) {
    check_unlisted(start, *allocation);
    return;
  }
  if (const auto holder = holder_by_checkpoint(*start, "", "")) {
    PodDevices devices;
    devices.containers[holder->container][start->resource] = start->ids;
    recovery_.learn(*holder->pod, devices);
    check(start, *holder->pod, holder->container);
    return;
  }
  for (const NodePod* pod : context_.node.pods.in_bind_order()) {
    start->to_ask.push_back(pod->spec.uid);
  }
  std::ranges::reverse(start->to_ask);  // ask_next_pod() takes the oldest pod from the back
  ask_next_pod(start);
}

// Returns the allocation of the container that starts; null if there is none. Several containers of
// a pod may have the same IDs, because kubelet reuses those of init containers. The one that starts
// is the first that is not running.
const Allocation* StartGate::starting_allocation(const Start& start) const {
  const Allocation* best = nullptr;
  std::pair<bool, std::ptrdiff_t> best_rank;  // whether it runs; its position in the pod
  for (const Allocation* allocation : allocations_.with_ids(start.resource, start.ids)) {
    const NodePod* pod = context_.node.pods.find(allocation->pod_uid);
    if (pod == nullptr) {
      continue;
    }
    const auto spec =
        std::ranges::find(pod->spec.containers, allocation->container, &alloc::ContainerSpec::name);
    const bool runs =
        spec == pod->spec.containers.end() || spec->state == alloc::ContainerState::kRunning ||
        (spec->kind == alloc::ContainerKind::kInit && spec->state == alloc::ContainerState::kTerminated);
    const std::pair rank{runs, spec - pod->spec.containers.begin()};
    if (best == nullptr || rank < best_rank) {
      best = allocation;
      best_rank = rank;
    }
  }
  return best;
}

// Returns the allocation of a container that restarts before the API server has listed the pods of
// the node; null if there is none. The allocation is from the state file, and kubelet's checkpoint
// says that the container still has the IDs.
const Allocation* StartGate::unlisted_allocation(const Start& start) const {
  const std::vector<const Allocation*> with_ids = allocations_.with_ids(start.resource, start.ids);
  if (context_.node.pods.is_synced() || with_ids.empty()) {
    return nullptr;
  }
  const Result<Checkpoint> checkpoint = context_.node.checkpoints.read();
  const auto found = std::ranges::find_if(with_ids, [&](const Allocation* allocation) {
    const CheckpointEntry* entry =
        checkpoint ? checkpoint->find(allocation->pod_uid, allocation->container, start.resource) : nullptr;
    return allocation->started && entry != nullptr && entry->ids == start.ids;
  });
  return found == with_ids.end() ? nullptr : *found;
}

// Handles kubelet's report of the devices of the expected pod.
void StartGate::verified(const std::shared_ptr<Start>& start, const ContainerName& expected,
                         const Result<PodDevices>& answer) {
  const NodePod* pod = context_.node.pods.find(expected.pod_uid);
  if (pod == nullptr) {
    reply(start, fail(ErrorCode::kUnavailable, "the pod has ended"));
    return;
  }
  if (start->try_again(answer)) {
    start->pause = context_.node.loop.after(kBusyPause, [this, start] { identify(start); });
    return;
  }
  if (answer && holds(*answer, expected.container, start->resource, start->ids)) {
    check(start, *pod, expected.container);
    return;
  }
  // Missing IDs do not prove that the allocation is wrong: kubelet does not report init containers,
  // knows no pod right after its start, and has no Get in older versions. The checkpoint decides.
  const auto holder = holder_by_checkpoint(*start, expected.pod_uid, expected.container);
  if (!holder || holder->pod == pod) {
    check(start, *pod, holder ? holder->container : expected.container);
    return;
  }
  log::warn("the devices were allocated to the wrong pod; reassigning them",
            {{"pod", holder->pod->text()}, {"container", holder->container}, {"allocated_to", pod->text()}});
  recovery_.reassign();
  check(start, *holder->pod, holder->container);
}

// Returns the known pod and container that have the IDs according to kubelet's checkpoint. Prefers
// the likely one if there are several.
std::optional<StartGate::Holder> StartGate::holder_by_checkpoint(const Start& start,
                                                                 const std::string& likely_uid,
                                                                 const std::string& likely_container) const {
  const Result<Checkpoint> checkpoint = context_.node.checkpoints.read();
  std::optional<Holder> found;
  if (!checkpoint) {
    return found;
  }
  for (const CheckpointEntry* entry : checkpoint->holders(start.resource, start.ids)) {
    const NodePod* pod = context_.node.pods.find(entry->pod_uid);
    if (pod == nullptr) {
      continue;
    }
    found = Holder{.pod = pod, .container = entry->container};
    if (entry->pod_uid == likely_uid && entry->container == likely_container) {
      break;
    }
  }
  return found;
}

// Called if the IDs belong to this kind but have no allocation: the pod was unknown when kubelet
// admitted it, or the state file was lost. Asks kubelet about one pod after the other.
void StartGate::ask_next_pod(const std::shared_ptr<Start>& start) {
  const NodePod* pod = nullptr;
  while (!start->to_ask.empty() && (pod = context_.node.pods.find(start->to_ask.back())) == nullptr) {
    start->to_ask.pop_back();
  }
  if (pod == nullptr) {
    reply(start,
          fail(ErrorCode::kUnavailable,
               fmt::format("the pod that has these {} devices is not known yet; waiting for the API server "
                           "to list the pods of this node",
                           context_.kind.info().one)));
    return;
  }
  context_.node.pod_resources.get(
      pod->name(), kGetDeadline,
      gate_.wrap<Result<PodDevices>>([this, start, uid = pod->spec.uid](const Result<PodDevices>& answer) {
        if (start->try_again(answer)) {
          start->pause = context_.node.loop.after(kBusyPause, [this, start] { ask_next_pod(start); });
          return;
        }
        start->to_ask.pop_back();
        const NodePod* known = context_.node.pods.find(uid);
        if (answer && known != nullptr) {
          for (const auto& [container, resources] : answer->containers) {
            if (holds(*answer, container, start->resource, start->ids)) {
              recovery_.learn(*known, *answer);
              check(start, *known, container);
              return;
            }
          }
        }
        ask_next_pod(start);
      }));
}

}  // namespace tessera::agent
