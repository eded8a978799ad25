#include "agent/devices/allocation_recovery.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/strings.h"

namespace tessera::agent {

namespace {

// kubelet writes its checkpoint when all resources of a container are allocated.
constexpr std::chrono::seconds kCheckpointWithin{10};
constexpr std::chrono::seconds kGetDeadline{2};
// Begins all CDI names of the agent.
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

// Whether all containers of the pod that request something of this kind have an allocation. Init
// containers do not count: kubelet does not report them.
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

// Asks kubelet about one pod at a time: it allows 100 Gets a second, and an admission may need
// them.
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
  std::optional<Checkpoint> read;  // read only if there is something to learn: kubelet may be waiting
  const auto entry_of = [&](const std::string& container, const std::string& resource) {
    if (checkpoint == nullptr && !read) {
      read = context_.node.checkpoints.read().value_or(Checkpoint{});
    }
    return (checkpoint == nullptr ? *read : *checkpoint).find(pod.spec.uid, container, resource);
  };
  const std::vector<std::string>& ours = context_.kind.resources();
  std::set<std::string> mistaken;  // UIDs; forgotten at the end, when all their allocations have been moved
  for (const auto& [container, resources] : devices.containers) {
    const ContainerName key{.pod = pod.name(), .pod_uid = pod.spec.uid, .container = container};
    for (const auto& [resource, ids] : resources) {
      if (std::ranges::find(ours, resource) == ours.end()) {
        continue;
      }
      const Allocation* other = mistaken_for(pod, resource, ids);
      // There is one thing to learn about a container that has an allocation: kubelet lost its
      // checkpoint and admitted it again, and the pod was not known then.
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

// The allocation that has these IDs although `pod` has them: of another pod that was mistaken for
// this one, or of an unknown pod. The other pod must not have started: a pod that has started got
// the IDs itself, and only its end has not been reported yet.
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

// Corrects a learned allocation by the response that kubelet keeps for the container: it may have
// got something else than what is decided for it now.
void AllocationRecovery::apply_response(const ContainerResponse& response, const std::string& resource,
                                        Allocation& learned) const {
  for (const std::string& name : response.cdi_devices) {
    if (name.starts_with(kCdiVendor)) {
      learned.cdi_names[resource] = name.substr(name.find('=') + 1);
    }
  }
  // The spec file of a CDI name overrides the variables, and may have been updated since.
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

// What a container sees by the variables it got at its admission, where `decided` are its shares
// now; nothing when the variables do not say. A value in another form, such as an index, is from a
// plugin that was here before. If a container with several devices sees others than decided, it is
// unknown how much it has of which; then it counts as having none.
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

// The pods may have been mixed up in a ring, so all allocations are checked. What each container
// really sees moves with its IDs. Wrong guesses happen where kubelet has no Get.
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
        continue;
      }
      wrong.insert(allocation.pod_uid);
      // A container that got these IDs itself sees what it got then; the end of the other pod has
      // not been reported yet.
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
// that of an unknown pod: kubelet may have rejected this pod before it asked the agent, and the
// container that was really served may not have started yet. What that container sees is recorded
// nowhere else.
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

// Forgets unknown pods whose IDs kubelet's checkpoint does not contain, except new ones: the
// checkpoint may not have been written yet.
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
