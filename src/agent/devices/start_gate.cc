#include "agent/devices/start_gate.h"

#include <fmt/core.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <utility>

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

struct StartGate::Start {
  std::string resource;
  std::vector<std::string> ids;  // sorted
  Done<Status> done;
  std::vector<std::string> to_ask;  // UIDs of pods that may hold the IDs, the next one last
  int tries = 0;
  http::Timer pause;

  // Returns whether to repeat the Get because kubelet has reached its rate limit.
  bool try_again(const Result<PodDevices>& answer) {
    return !answer && answer.error().code() == ErrorCode::kExhausted && ++tries < kMaxTries;
  }
};

StartGate::StartGate(const KindContext& context, AllocationRecovery& recovery)
    : context_(context), allocations_(context.allocations()), recovery_(recovery), gate_(context.node.loop) {}

void StartGate::pre_start(const std::string& resource, std::vector<std::string> ids, Done<Status> done) {
  std::ranges::sort(ids);
  // The pod was admitted by another plugin for this resource. It restarts unchanged.
  if (!context_.are_ours(ids)) {
    done({});
    return;
  }
  auto start = std::make_shared<Start>();
  start->resource = resource;
  start->ids = std::move(ids);
  start->done = std::move(done);
  identify(start);
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

// Answers the call for a known container: checks whether anything blocks its start, and then calls
// DeviceKind::before_start().
void StartGate::check(const std::shared_ptr<Start>& start, const NodePod& pod, const std::string& container) {
  const ContainerName key{.pod = pod.name(), .pod_uid = pod.spec.uid, .container = container};
  allocations_.confirm(key.pod_uid, container);
  const Allocation* allocation = allocations_.find(key.pod_uid, container);
  const IdsByResource ids =
      allocation == nullptr ? IdsByResource{{start->resource, start->ids}} : allocation->ids;
  if (std::optional<StartBlock> block = find_block(pod, container, ids)) {
    if (is_static_pod(*start)) {
      block->message = fmt::format(
          "is a static pod, which kubelet admits before the API server knows it, so no {} can be chosen for "
          "it; remove its manifest from the node and create it through the API server, for example as a "
          "DaemonSet with a nodeSelector",
          context_.kind.info().one);
    }
    context_.node.warn_pod(pod, block->reason, block->message);
    finish(start, key, fail(ErrorCode::kUnavailable, fmt::format("pod {}: {}", pod.text(), block->message)));
    return;
  }
  // If this takes more than 30 s, kubelet gives up and calls again. That call waits for the same
  // result.
  const bool started_before = allocation != nullptr && allocation->started;
  context_.kind.before_start(pod, container,
                             gate_.wrap<Status>([this, start, key, started_before](const Status& status) {
                               if (!status && !started_before) {
                                 allocations_.set_started(key.pod_uid, key.container, false);
                               }
                               finish(start, key, status);
                             }));
  // Other containers that start in the meantime must not get the same devices.
  allocations_.set_started(key.pod_uid, container, true);
}

// Returns whether the IDs belong to a static pod. kubelet knows such a pod by the 32 digits of a hash
// of its manifest. Its mirror in the API server has another UID.
bool StartGate::is_static_pod(const Start& start) const {
  const Result<Checkpoint> checkpoint = context_.node.checkpoints.read();
  return checkpoint && std::ranges::any_of(checkpoint->holders(start.resource, start.ids),
                                           [](const CheckpointEntry* entry) {
                                             return entry->pod_uid.size() == 32 &&
                                                    entry->pod_uid.find('-') == std::string::npos;
                                           });
}

// Answers the call for a container that has started before and whose pod is not listed yet. The
// container keeps its devices, so only they are checked.
void StartGate::check_unlisted(const std::shared_ptr<Start>& start, const Allocation& allocation) {
  const ContainerName key{
      .pod = allocation.pod, .pod_uid = allocation.pod_uid, .container = allocation.container};
  const std::vector<NodeDevice> devices = context_.kind.devices();
  std::string why = allocation.fault;
  for (const DeviceShare& share : allocation.shares) {
    if (std::ranges::find(devices, share.device, &NodeDevice::id) == devices.end()) {
      why = fmt::format("{} {} is not on this node", context_.kind.info().one, share.device);
    }
  }
  if (const auto unhealthy = unhealthy_block(allocation.shares)) {
    why = unhealthy->message;
  }
  // A strategy that can update has prepared the container at its last start.
  if (why.empty() && !context_.strategy.can_update()) {
    const Status prepared = context_.strategy.before_start({.pod_uid = key.pod_uid,
                                                            .container = key.container,
                                                            .edits = context_.edits(allocation.shares),
                                                            .fixed = allocation.fixed});
    why = prepared ? "" : prepared.error().text();
  }
  const std::string pod = key.pod.namespace_name + "/" + key.pod.name;
  finish(start, key,
         why.empty() ? Status() : fail(ErrorCode::kUnavailable, fmt::format("pod {}: {}", pod, why)));
}

std::optional<StartBlock> StartGate::find_block(const NodePod& pod, const std::string& container,
                                                const IdsByResource& ids) {
  const KindInfo& info = context_.kind.info();
  const Decision decided = decide(pod, container, ids);
  if (!decided) {
    return decided.error();
  }
  update_allocations(pod);
  const Allocation* allocation = allocations_.find(pod.spec.uid, container);
  if (std::optional<StartBlock> unhealthy = unhealthy_block(decided->shares)) {
    return unhealthy;
  }
  if (std::optional<StartBlock> block = context_.kind.block_start(pod)) {
    return block;
  }
  if (allocation != nullptr && !allocation->fault.empty()) {
    return StartBlock{
        .reason = info.setup_failed,
        .message = fmt::format("{}; when that is repaired, delete the pod so that it is admitted again",
                               allocation->fault)};
  }
  if (const Status prepared = prepare(pod, container, *decided); !prepared) {
    return StartBlock{.reason = info.setup_failed, .message = prepared.error().text()};
  }
  prepare_others(pod, container);
  return std::nullopt;
}

// Makes the allocations of containers that can still be updated follow the current decision. Does
// this for all containers of the pod, because its first start makes the allocations permanent.
void StartGate::update_allocations(const NodePod& pod) {
  for (const alloc::ContainerSpec& container : pod.spec.containers) {
    const Allocation* allocation = allocations_.find(pod.spec.uid, container.name);
    if (allocation == nullptr || !can_update(allocation)) {
      continue;
    }
    const Decision decided = context_.kind.decide(pod, container.name, allocation->ids);
    if (decided && decided->shares != allocation->shares) {
      Allocation updated = *allocation;
      updated.shares = decided->shares;
      updated.start_block.clear();
      allocations_.record(updated);
    }
  }
}

// Returns the devices with which the container may start. The devices that it was admitted with may
// differ from those decided now: the lookup guessed wrong, the watch was late, or the decision has
// changed since. If the container can still be updated, the decision wins. Otherwise it keeps the
// devices that it has, provided that the kind accepts them.
Decision StartGate::decide(const NodePod& pod, const std::string& container, const IdsByResource& ids) const {
  Decision decided = context_.kind.decide(pod, container, ids);
  const Allocation* allocation = allocations_.find(pod.spec.uid, container);
  if (!decided || can_update(allocation)) {
    return decided;
  }
  const Result<Decided> accepted = context_.kind.accept_allocated(pod, container, *decided, allocation);
  if (accepted) {
    return *accepted;
  }
  const KindInfo& info = context_.kind.info();
  return tl::unexpected(StartBlock{
      .reason = info.mismatch,
      .message =
          fmt::format("container {} was admitted with {}, but other {} are decided for it now ({}); kubelet "
                      "keeps what the pod was admitted with, so delete the pod and let it be created again",
                      container,
                      allocation == nullptr || allocation->shares.empty() ? "no " + info.one
                                                                          : allocation->shares.front().device,
                      info.many, accepted.error().text())});
}

// Returns whether the devices that the container sees can still be changed. That requires a CDI
// name from its admission, whatever strategy is used now.
bool StartGate::can_update(const Allocation* allocation) const {
  return context_.strategy.can_update() && (allocation == nullptr || !allocation->cdi_names.empty());
}

std::optional<StartBlock> StartGate::unhealthy_block(const std::vector<DeviceShare>& shares) const {
  const std::vector<NodeDevice> devices = context_.kind.devices();
  for (const DeviceShare& share : shares) {
    const auto found = std::ranges::find(devices, share.device, &NodeDevice::id);
    if (found != devices.end() && !found->unhealthy.empty()) {
      const KindInfo& info = context_.kind.info();
      return StartBlock{
          .reason = info.unhealthy,
          .message = fmt::format("{} is unhealthy ({}); the container starts when it is healthy again, "
                                 "or delete the pod so that another {} is chosen",
                                 found->name, found->unhealthy, info.one)};
    }
  }
  return std::nullopt;
}

Status StartGate::prepare(const NodePod& pod, const std::string& container, const Decided& decided) {
  ContainerEdits edits{.pod_uid = pod.spec.uid, .container = container, .env = decided.env};
  edits.edits = context_.edits(decided.shares);
  if (const Allocation* allocation = allocations_.find(pod.spec.uid, container)) {
    const auto names = std::views::values(allocation->cdi_names);
    const std::set<std::string> different(names.begin(), names.end());
    edits.cdi_names.assign(different.begin(), different.end());
    edits.fixed = allocation->fixed;
  }
  return context_.strategy.before_start(edits);
}

// Prepares the other containers of the pod with the same IDs too. When an init container ends, the
// next one starts with its IDs before the API server reports the end, so another one of them may be
// the one that starts.
void StartGate::prepare_others(const NodePod& pod, const std::string& container) {
  const Allocation* allocation = allocations_.find(pod.spec.uid, container);
  if (allocation == nullptr || !context_.strategy.can_update()) {
    return;
  }
  for (const auto& [resource, ids] : allocation->ids) {
    for (const Allocation* other : allocations_.with_ids(resource, ids)) {
      if (other->pod_uid != pod.spec.uid || other->container == container) {
        continue;
      }
      const Decision decided = context_.kind.decide(pod, other->container, other->ids);
      const Status prepared = decided ? prepare(pod, other->container, *decided) : Status();
      if (!prepared) {
        log::warn("cannot prepare a container that shares its IDs",
                  {{"pod", pod.text()}, {"container", other->container}, {"error", prepared.error()}});
      }
    }
  }
}

void StartGate::finish(const std::shared_ptr<Start>& start, const ContainerName& container,
                       const Status& status) {
  allocations_.set_start_block(container.pod_uid, container.container, status ? "" : status.error().text());
  context_.store.changed();
  reply(start, status);
}

void StartGate::reply(const std::shared_ptr<Start>& start, Status status) {
  ++(status ? counts_.started : counts_.blocked);
  start->done(std::move(status));
}

}  // namespace tessera::agent
