#include "agent/devices/allocation_recovery.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/strings.h"

namespace tessera::agent {

namespace {

// kubelet writes its checkpoint after it has allocated all resources of a container.
constexpr std::chrono::seconds kCheckpointWithin{10};
constexpr std::chrono::seconds kGetDeadline{2};
// Prefix of all CDI names of the agent.
constexpr std::string_view kCdiVendor = "tessera.io/";

}  // namespace

AllocationRecovery::AllocationRecovery(const KindContext& context)
    : context_(context), allocations_(context.allocations()), gate_(context.node.loop) {
  context_.node.pods.add_listener(*this);
}

AllocationRecovery::~AllocationRecovery() {
  context_.node.pods.remove_listener(*this);
}

void AllocationRecovery::recover() {
  const NodePods& pods = context_.node.pods;
  std::set<std::string> ended;  // UIDs
  for (const Allocation& allocation : allocations_.all()) {
    if (!is_unknown_pod(allocation.pod_uid) && pods.find(allocation.pod_uid) == nullptr) {
      ended.insert(allocation.pod_uid);
    }
  }
  for (const std::string& uid : ended) {
    forget_ended(uid);
  }
  learn_from_checkpoint();
  forget_ended_unknown();
  to_learn_.clear();
  for (const NodePod* pod : pods.in_bind_order()) {
    if (!is_known(*pod)) {
      to_learn_.push_back(pod->spec.uid);
    }
  }
  context_.strategy.remove_unneeded([&](const std::string& pod_uid, const std::string& name) {
    return pods.find(pod_uid) != nullptr || allocations_.has_cdi_name(name);
  });
  context_.store.changed();
  if (!learning_) {
    learn_next();
  }
}

// Returns whether all containers of the pod that request this kind have an allocation. Init
// containers are ignored, because kubelet does not report them.
bool AllocationRecovery::is_known(const NodePod& pod) const {
  return std::ranges::all_of(pod.spec.containers, [&](const alloc::ContainerSpec& container) {
    const bool requests = std::ranges::any_of(context_.kind.resources(), [&](const std::string& resource) {
      return context_.node.pods.requested(container, resource) > 0;
    });
    return !requests || container.kind == alloc::ContainerKind::kInit ||
           allocations_.find(pod.spec.uid, container.name) != nullptr;
  });
}

void AllocationRecovery::learn_from_checkpoint() {
  const Result<Checkpoint> checkpoint = context_.node.checkpoints.read();
  if (!checkpoint) {
    return;
  }
  std::map<std::string, PodDevices> devices;
  for (const CheckpointEntry& entry : checkpoint->entries) {
    devices[entry.pod_uid].containers[entry.container][entry.resource] = entry.ids;
  }
  for (const auto& [uid, held] : devices) {
    if (const NodePod* pod = context_.node.pods.find(uid)) {
      learn(*pod, held, &*checkpoint);
    }
  }
}

// Asks kubelet about one pod at a time, because kubelet allows 100 Gets a second and an admission
// may need some of them.
void AllocationRecovery::learn_next() {
  const NodePod* pod = nullptr;
  while (pod == nullptr && !to_learn_.empty()) {
    pod = context_.node.pods.find(to_learn_.back());
    to_learn_.pop_back();
  }
  learning_ = pod != nullptr;
  if (!learning_) {
    return;
  }
  context_.node.pod_resources.get(
      pod->name(), kGetDeadline,
      gate_.wrap<Result<PodDevices>>([this, uid = pod->spec.uid](const Result<PodDevices>& answer) {
        const NodePod* known = context_.node.pods.find(uid);
        if (answer && known != nullptr) {
          learn(*known, *answer);
        }
        learn_next();
      }));
}

void AllocationRecovery::learn(const NodePod& pod, const PodDevices& devices, const Checkpoint* checkpoint) {
  std::optional<Checkpoint> read;  // read only when needed: kubelet may be waiting
  const auto entry_of = [&](const std::string& container, const std::string& resource) {
    if (checkpoint == nullptr && !read) {
      read = context_.node.checkpoints.read().value_or(Checkpoint{});
    }
    return (checkpoint == nullptr ? *read : *checkpoint).find(pod.spec.uid, container, resource);
  };
  const std::vector<std::string>& ours = context_.kind.resources();
  std::set<std::string> mistaken;  // UIDs of pods to forget once their allocations have been moved
  for (const auto& [container, resources] : devices.containers) {
    const ContainerName key{.pod = pod.name(), .pod_uid = pod.spec.uid, .container = container};
    for (const auto& [resource, ids] : resources) {
      if (std::ranges::find(ours, resource) == ours.end()) {
        continue;
      }
      const Allocation* other = mistaken_for(pod, resource, ids);
      // A container that has an allocation needs an update in one case only: kubelet lost its
      // checkpoint and admitted the pod again while the agent did not know the pod.
      if (allocations_.has(pod.spec.uid, container, resource) &&
          (other == nullptr || !is_unknown_pod(other->pod_uid))) {
        continue;
      }
      const Decision decision = context_.kind.decide(pod, container, resources);
      Allocation learned;
      if (other != nullptr) {
        learned = moved_to(key, *other, resource);
        mistaken.insert(other->pod_uid);
      } else {
        learned = {.pod = key.pod, .pod_uid = key.pod_uid, .container = container};
        learned.ids[resource] = ids;
        learned.shares = decision ? decision->shares : std::vector<DeviceShare>();
        const CheckpointEntry* entry = entry_of(container, resource);
        if (entry != nullptr && entry->ids == ids && context_.are_ours(ids)) {
          if (const Result<ContainerResponse> response = entry->decode_response()) {
            apply_response(*response, resource, learned);
          }
        }
      }
      learned.start_block = decision ? "" : decision.error().message;
      allocations_.record(learned);
    }
  }
  for (const std::string& uid : mistaken) {
    allocations_.forget(uid);
  }
  context_.store.changed();
}

// Returns the allocation of another pod or of an unknown pod that has the IDs which `pod` really
// has. The agent took that pod for this one. A pod that has started does not count: it got the IDs
// itself earlier, and the API server has not reported its end yet.
const Allocation* AllocationRecovery::mistaken_for(const NodePod& pod, const std::string& resource,
                                                   const std::vector<std::string>& ids) const {
  for (const Allocation* allocation : allocations_.with_ids(resource, ids)) {
    const NodePod* other = context_.node.pods.find(allocation->pod_uid);
    if (is_unknown_pod(allocation->pod_uid) ||
        (other != nullptr && other->spec.uid != pod.spec.uid && !other->started())) {
      return allocation;
    }
  }
  return nullptr;
}

// Corrects a learned allocation from the Allocate response that kubelet keeps for the container:
// the container may have been admitted with other devices than are decided for it now.
void AllocationRecovery::apply_response(const ContainerResponse& response, const std::string& resource,
                                        Allocation& learned) const {
  for (const std::string& name : response.cdi_devices) {
    if (name.starts_with(kCdiVendor)) {
      learned.cdi_names[resource] = name.substr(name.find('=') + 1);
    }
  }
  // The spec file of a CDI name overrides the variables and may have been updated since.
  if (!learned.cdi_names.empty()) {
    return;
  }
  if (const auto visible = visible_shares(response.env, learned.shares)) {
    learned.shares = *visible;
  }
  const Result<Edits> needed = context_.edits(learned.shares);
  if (response.nodes.empty() && needed && !needed->nodes.empty()) {
    learned.fault = fmt::format("container {} was admitted without the device nodes of its {}",
                                learned.container, context_.kind.info().many);
  }
}

// Returns the shares that a container sees according to the variables of its Allocate response;
// nullopt if they do not say. A value in another form, such as an index, comes from another plugin
// that served the resource before. `decided` are the shares decided now. If a container with
// several devices sees other devices than decided, its share of each one is unknown, and the result
// is empty.
std::optional<std::vector<DeviceShare>> AllocationRecovery::visible_shares(
    const Env& env, const std::vector<DeviceShare>& decided) const {
  const KindInfo& info = context_.kind.info();
  const auto found = info.visible_variable.empty() ? env.end() : env.find(info.visible_variable);
  if (found == env.end()) {
    return std::nullopt;
  }
  if (found->second == info.visible_none) {
    return std::vector<DeviceShare>();
  }
  if (!found->second.starts_with(info.device_prefix)) {
    return std::nullopt;
  }
  const std::vector<std::string_view> devices = split(found->second, ',');
  const bool same =
      devices.size() == decided.size() && std::ranges::all_of(decided, [&](const DeviceShare& share) {
        return std::ranges::find(devices, share.device) != devices.end();
      });
  if (same || decided.empty()) {
    return decided;
  }
  if (devices.size() != 1 || decided.size() != 1) {
    return std::vector<DeviceShare>();
  }
  DeviceShare other = decided.front();
  other.device = devices.front();
  return std::vector{other};
}

// Checks all allocations, because several pods may have been mixed up in a cycle. The devices that
// a container really sees move with its IDs. Wrong guesses happen with kubelets that have no Get.
void AllocationRecovery::reassign() {
  const Result<Checkpoint> checkpoint = context_.node.checkpoints.read();
  if (!checkpoint) {
    return;
  }
  const NodePods& pods = context_.node.pods;
  std::vector<Allocation> stay;
  std::vector<Allocation> move;
  std::set<std::string> wrong;  // UIDs
  for (const Allocation& allocation : allocations_.all()) {
    for (const auto& [resource, ids] : allocation.ids) {
      const CheckpointEntry* holder = nullptr;
      bool is_right = false;
      for (const CheckpointEntry* entry : checkpoint->holders(resource, ids)) {
        is_right = is_right || entry->pod_uid == allocation.pod_uid;
        holder = holder == nullptr && pods.find(entry->pod_uid) != nullptr ? entry : holder;
      }
      if (is_right || holder == nullptr) {
        stay.push_back(moved_to(
            {.pod = allocation.pod, .pod_uid = allocation.pod_uid, .container = allocation.container},
            allocation, resource));
        stay.back().guessed = allocation.guessed && !is_right;
        stay.back().started = allocation.started;
        continue;
      }
      wrong.insert(allocation.pod_uid);
      // The holder may have an allocation of its own for these IDs. Then that one is right, and
      // the API server has not reported the end of the other pod yet.
      const std::vector<const Allocation*> with_ids = allocations_.with_ids(resource, ids);
      if (std::ranges::none_of(with_ids, [&](const Allocation* own) {
            return own->pod_uid == holder->pod_uid && own->container == holder->container;
          })) {
        move.push_back(moved_to({.pod = pods.find(holder->pod_uid)->name(),
                                 .pod_uid = holder->pod_uid,
                                 .container = holder->container},
                                allocation, resource));
      }
    }
  }
  for (const std::string& uid : wrong) {
    allocations_.forget(uid);
  }
  for (const Allocation& allocation : stay) {
    if (wrong.contains(allocation.pod_uid)) {
      allocations_.record(allocation);
    }
  }
  for (const Allocation& allocation : move) {
    allocations_.record(allocation);
  }
  context_.store.changed();
}

void AllocationRecovery::forget_readmitted(const NodePod& pod) {
  allocations_.forget(pod.spec.uid);
  context_.store.changed();
}

void AllocationRecovery::record_unknown(const Allocation& allocation) {
  unknown_since_[allocation.pod_uid] = Clock::real().now();
  allocations_.record(allocation);
}

void AllocationRecovery::forget_unknown_with(const std::string& resource,
                                             const std::vector<std::string>& ids) {
  std::set<std::string> over;  // UIDs
  for (const Allocations::HeldId& held : allocations_.held_ids(resource)) {
    if (is_unknown_pod(held.allocation->pod_uid) && std::ranges::find(ids, *held.id) != ids.end()) {
      over.insert(held.allocation->pod_uid);
    }
  }
  for (const std::string& uid : over) {
    allocations_.forget(uid);
  }
}

void AllocationRecovery::pod_removed(const std::string& uid) {
  std::set<std::string> cdi_names;
  for (const Allocation& allocation : allocations_.all()) {
    if (allocation.pod_uid == uid) {
      for (const auto& [resource, name] : allocation.cdi_names) {
        cdi_names.insert(name);
      }
    }
  }
  forget_ended(uid);
  forget_ended_unknown();
  context_.strategy.remove_unneeded([&](const std::string& pod_uid, const std::string& name) {
    return (pod_uid != uid && pod_uid != kUnknownCdiPod && !cdi_names.contains(name)) ||
           allocations_.has_cdi_name(name);
  });
  context_.store.changed();
}

// Forgets the allocations of a pod that has ended. A guess that kubelet never confirmed is kept as
// the allocation of an unknown pod: kubelet may have rejected this pod before it called the agent,
// and the container that the call was for may not have started yet. The devices which that
// container sees are recorded nowhere else.
void AllocationRecovery::forget_ended(const std::string& uid) {
  std::vector<Allocation> unclear;
  for (const Allocation& allocation : allocations_.all()) {
    if (allocation.pod_uid != uid || !allocation.guessed) {
      continue;
    }
    for (const auto& [resource, ids] : allocation.ids) {
      unclear.push_back(moved_to({.pod = {}, .pod_uid = unknown_uid(resource, ids), .container = ""},
                                 allocation, resource));
    }
  }
  allocations_.forget(uid);
  for (const Allocation& allocation : unclear) {
    record_unknown(allocation);
  }
}

// Forgets unknown pods whose IDs are not in kubelet's checkpoint. Recent ones are kept, because
// kubelet may not have written its checkpoint yet.
void AllocationRecovery::forget_ended_unknown() {
  const std::vector<Allocation> all = allocations_.all();
  if (std::ranges::none_of(all, is_unknown_pod, &Allocation::pod_uid)) {
    return;
  }
  const Result<Checkpoint> checkpoint = context_.node.checkpoints.read();
  if (!checkpoint) {
    return;
  }
  for (const Allocation& allocation : all) {
    const bool held = std::ranges::any_of(allocation.ids, [&](const auto& entry) {
      return !checkpoint->holders(entry.first, entry.second).empty();
    });
    const auto since = unknown_since_.find(allocation.pod_uid);
    const bool is_new =
        since != unknown_since_.end() && Clock::real().now() - since->second < kCheckpointWithin;
    if (is_unknown_pod(allocation.pod_uid) && !held && !is_new) {
      unknown_since_.erase(allocation.pod_uid);
      allocations_.forget(allocation.pod_uid);
    }
  }
}

}  // namespace tessera::agent
