// What was given, put together again from what kubelet says: after a restart, and where kubelet asked for a
// pod that was not known or that was taken for another.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

#include "agent/devices/allocator.h"

namespace tessera::agent {

namespace {

// kubelet writes its file when the whole container is through.
constexpr std::chrono::seconds kCheckpointWithin{10};
// Of all CDI names that are ours.
constexpr std::string_view kCdiVendor = "tessera.io/";

}  // namespace

// Another pod that the IDs stand under, because we took it to be asking, or the name of those that are not
// known; null when there is none. A pod still waits: one that has started was given them itself, and only its
// end has not been told.
const Allocation* Allocator::mistaken_for(const NodePod& pod, const std::string& resource,
                                          const std::vector<std::string>& ids) const {
  for (const Allocation* allocation : allocations_.with_ids(resource, ids)) {
    const NodePod* other = pods_.find(allocation->pod_uid);
    if (is_unknown_pod(allocation->pod_uid) ||
        (other != nullptr && other->spec.uid != pod.spec.uid && !other->started())) {
      return allocation;
    }
  }
  return nullptr;
}

void Allocator::recall(const Grant& handed, const std::string& resource, Allocation& learned) {
  for (const std::string& name : handed.cdi_devices) {
    if (name.starts_with(kCdiVendor)) {
      learned.cdi_names[resource] = name.substr(name.find('=') + 1);
    }
  }
  // What a name stands for wins over the variables, and may have been mended since.
  if (!learned.cdi_names.empty()) {
    return;
  }
  if (const auto seen = kind_.seen(handed.env, learned.shares)) {
    learned.shares = *seen;
  }
  const Result<Edits> needed = edits_of(learned.shares);
  if (handed.nodes.empty() && needed && !needed->nodes.empty()) {
    learned.fault = fmt::format("container {} was admitted without the device nodes of its {}",
                                learned.container, kind_.words().many);
  }
}

// kubelet says what a pod holds that we have no record of: it got what was decided, from an earlier process
// of ours, or what was meant for another, or nothing because it was not known.
void Allocator::learn(const NodePod& pod, const PodDevices& devices, const Checkpoint* checkpoint) {
  std::optional<Checkpoint> read;  // only for news: this may be inside a call of kubelet
  const auto entry_of = [&](const std::string& container, const std::string& resource) {
    if (checkpoint == nullptr && !read) {
      read = edges_.checkpoint().value_or(Checkpoint{});
    }
    return (checkpoint == nullptr ? *read : *checkpoint).find(pod.spec.uid, container, resource);
  };
  std::set<std::string> mistaken;  // UIDs; all that they were given is looked at before they are forgotten
  for (const auto& [container, resources] : devices.containers) {
    for (const auto& [resource, ids] : resources) {
      if (std::ranges::find(resources_, resource) == resources_.end()) {
        continue;
      }
      const Allocation* other = mistaken_for(pod, resource, ids);
      // Of a container that we know, only one thing is news: kubelet lost its file and admitted it again,
      // when we did not know whom it asked for.
      if (allocations_.has(pod.spec.uid, container, resource) &&
          (other == nullptr || !is_unknown_pod(other->pod_uid))) {
        continue;
      }
      const Decision decision = kind_.decide(pod, container, resources);
      Allocation learned{.pod = pod.name(), .pod_uid = pod.spec.uid, .container = container};
      learned.ids[resource] = ids;
      if (decision) {
        learned.shares = decision->shares;
      }
      if (other != nullptr) {
        learned = handed_on(*other, resource, pod.name(), pod.spec.uid, container);
        mistaken.insert(other->pod_uid);
      } else if (const CheckpointEntry* entry = entry_of(container, resource);
                 entry != nullptr && entry->ids == ids && are_ours(ids)) {
        if (const Result<Grant> handed = entry->handed()) {
          recall(*handed, resource, learned);
        }
      }
      learned.held = decision ? "" : decision.error().why;
      allocations_.give(learned);
    }
  }
  for (const std::string& uid : mistaken) {
    allocations_.forget(uid);
  }
  changed();
}

// kubelet gave IDs to other pods than we took to be asking: our guess was wrong, which it can be where
// kubelet has no Get. Pods may have been mixed up in a ring, so all are looked at. What each container really
// sees goes with its IDs.
void Allocator::put_right() {
  const Result<Checkpoint> checkpoint = edges_.checkpoint();
  if (!checkpoint) {
    return;
  }
  std::vector<Allocation> stay;
  std::vector<Allocation> move;
  std::set<std::string> wrong;  // UIDs
  for (const Allocation& allocation : allocations_.all()) {
    for (const auto& [resource, ids] : allocation.ids) {
      const CheckpointEntry* holder = nullptr;
      bool is_right = false;
      for (const CheckpointEntry* entry : checkpoint->holders(resource, ids)) {
        is_right = is_right || entry->pod_uid == allocation.pod_uid;
        holder = holder == nullptr && pods_.find(entry->pod_uid) != nullptr ? entry : holder;
      }
      if (is_right || holder == nullptr) {
        stay.push_back(
            handed_on(allocation, resource, allocation.pod, allocation.pod_uid, allocation.container));
        stay.back().guessed = allocation.guessed && !is_right;
        continue;
      }
      wrong.insert(allocation.pod_uid);
      // One that was given these IDs itself sees what it was given then; the end of the other has not been
      // told yet.
      const std::vector<const Allocation*> given = allocations_.with_ids(resource, ids);
      if (std::ranges::none_of(given, [&](const Allocation* own) {
            return own->pod_uid == holder->pod_uid && own->container == holder->container;
          })) {
        move.push_back(handed_on(allocation, resource, pods_.find(holder->pod_uid)->name(), holder->pod_uid,
                                 holder->container));
      }
    }
  }
  for (const std::string& uid : wrong) {
    allocations_.forget(uid);
  }
  for (const Allocation& allocation : stay) {
    if (wrong.contains(allocation.pod_uid)) {
      allocations_.give(allocation);
    }
  }
  for (const Allocation& allocation : move) {
    allocations_.give(allocation);
  }
  changed();
}

void Allocator::forget_unknown_with(const std::string& resource, const std::vector<std::string>& ids) {
  std::set<std::string> over;  // UIDs
  allocations_.each_id(resource, [&](const Allocation& allocation, const std::string& id) {
    if (is_unknown_pod(allocation.pod_uid) && std::ranges::find(ids, id) != ids.end()) {
      over.insert(allocation.pod_uid);
    }
  });
  for (const std::string& uid : over) {
    allocations_.forget(uid);
  }
}

void Allocator::forget_unknown_that_ended() {
  const std::vector<Allocation> all = allocations_.all();
  if (std::ranges::none_of(all, is_unknown_pod, &Allocation::pod_uid)) {
    return;
  }
  const Result<Checkpoint> checkpoint = edges_.checkpoint();
  if (!checkpoint) {
    return;
  }
  for (const Allocation& allocation : all) {
    const bool held = std::ranges::any_of(allocation.ids, [&](const auto& entry) {
      return !checkpoint->holders(entry.first, entry.second).empty();
    });
    const auto given = unknown_since_.find(allocation.pod_uid);
    const bool is_new =
        given != unknown_since_.end() && Clock::real().now() - given->second < kCheckpointWithin;
    if (is_unknown_pod(allocation.pod_uid) && !held && !is_new) {
      unknown_since_.erase(allocation.pod_uid);
      allocations_.forget(allocation.pod_uid);
    }
  }
}

// A pod that kubelet rejects before it asks us is a wrong guess until its end is told, and the container that
// was served in its place may not have started by then: what that one sees is written down nowhere else.
void Allocator::forget_ended(const std::string& uid) {
  std::vector<Allocation> unclear;
  for (const Allocation& allocation : allocations_.all()) {
    if (allocation.pod_uid != uid || !allocation.guessed) {
      continue;
    }
    for (const auto& [resource, ids] : allocation.ids) {
      unclear.push_back(handed_on(allocation, resource, {}, unknown_uid(resource, ids), ""));
    }
  }
  allocations_.forget(uid);
  for (const Allocation& allocation : unclear) {
    unknown_since_[allocation.pod_uid] = Clock::real().now();
    allocations_.give(allocation);
  }
}

void Allocator::pods_synced() {
  std::set<std::string> ended;  // UIDs
  for (const Allocation& allocation : allocations_.all()) {
    if (!is_unknown_pod(allocation.pod_uid) && pods_.find(allocation.pod_uid) == nullptr) {
      ended.insert(allocation.pod_uid);
    }
  }
  for (const std::string& uid : ended) {
    forget_ended(uid);
  }
  learn_from_checkpoint();
  forget_unknown_that_ended();
  to_learn_.clear();
  for (const NodePod* pod : pods_.in_bind_order()) {
    if (!is_known(*pod)) {
      to_learn_.push_back(pod->spec.uid);
    }
  }
  strategy_.keep_only([this](const std::string& pod_uid, const std::string& name) {
    return pods_.find(pod_uid) != nullptr || allocations_.has_cdi_name(name);
  });
  changed();
  search_.pods_changed();
  if (!learning_) {
    learn_next();
  }
}

// Whether there is a record of all its containers that ask for something of this kind.
bool Allocator::is_known(const NodePod& pod) const {
  return std::ranges::all_of(pod.spec.containers, [&](const alloc::ContainerSpec& container) {
    const bool asks = std::ranges::any_of(
        resources_, [&](const std::string& resource) { return pods_.asked(container, resource) > 0; });
    return !asks || container.kind == alloc::ContainerKind::kInit ||
           allocations_.find(pod.spec.uid, container.name) != nullptr;
  });
}

void Allocator::learn_from_checkpoint() {
  const Result<Checkpoint> checkpoint = edges_.checkpoint();
  if (!checkpoint) {
    return;
  }
  std::map<std::string, PodDevices> devices;
  for (const CheckpointEntry& entry : checkpoint->given) {
    devices[entry.pod_uid].containers[entry.container][entry.resource] = entry.ids;
  }
  for (const auto& [uid, held] : devices) {
    if (const NodePod* pod = pods_.find(uid)) {
      learn(*pod, held, &*checkpoint);
    }
  }
}

// One at a time, slowly: kubelet allows 100 Gets a second, and an admission may need them.
void Allocator::learn_next() {
  learning_ = !to_learn_.empty();
  if (!learning_) {
    return;
  }
  const std::string uid = to_learn_.back();
  to_learn_.pop_back();
  const NodePod* pod = pods_.find(uid);
  if (pod == nullptr) {
    learn_next();
    return;
  }
  edges_.get(pod->name(), std::chrono::seconds(2),
             gate_.wrap<Result<PodDevices>>([this, uid](const Result<PodDevices>& answer) {
               const NodePod* known = pods_.find(uid);
               if (answer && known != nullptr) {
                 learn(*known, *answer);
               }
               learn_next();
             }));
}

}  // namespace tessera::agent
