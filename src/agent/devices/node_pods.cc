#include "agent/devices/node_pods.h"

#include <algorithm>

#include "base/log.h"
#include "objects/pod_decoder.h"

namespace tessera::agent {

bool NodePod::started() const {
  return std::ranges::any_of(spec.containers, [](const alloc::ContainerSpec& container) {
    return container.state != alloc::ContainerState::kNotStarted || container.ran_before;
  });
}

NodePods::NodePods(const alloc::ResourceNames& names, Events events, std::vector<std::string> others)
    : names_(&names), others_served_(std::move(others)), events_(std::move(events)) {}

std::int64_t NodePods::asked(const alloc::ContainerSpec& container, std::string_view resource) const {
  const auto amount = [](const auto& limits, const auto& name) -> std::int64_t {
    const auto found = std::ranges::find_if(limits, [&](const auto& limit) { return limit.first == name; });
    return found == limits.end() ? 0 : found->second.rounded_up();
  };
  const auto gpu = names_->find(resource);
  return gpu ? amount(container.gpu_limits, *gpu) : amount(container.other_limits, resource);
}

bool NodePods::asks(const alloc::PodSpec& pod) const {
  const auto any = [](const auto& limits) {
    return std::ranges::any_of(limits, [](const auto& limit) { return limit.second.rounded_up() > 0; });
  };
  return std::ranges::any_of(pod.containers, [&](const alloc::ContainerSpec& container) {
    return any(container.gpu_limits) || any(container.other_limits);
  });
}

Status NodePods::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  return objects::decode_pod(object, *names_, meta, decoded_,
                             {.container_ids = true, .ran_before = true, .resources = &others_served_});
}

void NodePods::keep(const kube::ObjectMeta& meta) {
  put(decoded_, meta.version, true);
}

void NodePods::forget(const kube::ObjectMeta& meta) {
  told_ = std::max(told_, meta.version);
  remove(meta.uid);
}

// What was known of it stays: its containers may be running.
void NodePods::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  log::warn("pod unreadable", {{"pod", meta.namespace_name + "/" + meta.name}, {"why", error}});
}

void NodePods::synced() {
  // A pod that we fetched ourselves and that ended during a gap of the watch is never told of.
  std::vector<std::string> vanished;
  for (const auto& [uid, pod] : pods_) {
    if (!pod.from_watch) {
      vanished.push_back(uid);
    }
  }
  for (const std::string& uid : vanished) {
    remove(uid);
  }
  synced_ = true;
  told_ = 0;  // a list is in no order, and a server that was restored from a backup counts from an earlier
              // version
  if (events_.synced) {
    events_.synced();
  }
}

void NodePods::put(const alloc::PodSpec& pod, std::uint64_t version, bool from_watch) {
  if (const auto known = pods_.find(pod.uid); known != pods_.end()) {
    known->second.from_watch = known->second.from_watch || from_watch;
    if (versions_[pod.uid] >= version) {
      return;
    }
  } else if (!from_watch && synced_ && version <= told_) {
    return;
  }
  if (from_watch) {
    told_ = std::max(told_, version);
  }
  if (!alloc::occupies(pod) || !asks(pod)) {
    remove(pod.uid);
    if (alloc::occupies(pod)) {
      others_[pod.uid] = pod.namespace_name + "/" + pod.name;
    }
    return;
  }
  const auto [entry, is_new] = pods_.try_emplace(pod.uid);
  NodePod& kept = entry->second;
  kept.spec = pod;
  if (is_new) {
    kept.bound_at = version;
    kept.from_watch = from_watch;
  }
  versions_[pod.uid] = version;
  if (events_.changed) {
    events_.changed(kept);
  }
}

void NodePods::remove(const std::string& uid) {
  others_.erase(uid);
  if (pods_.erase(uid) > 0) {
    versions_.erase(uid);
    if (events_.ended) {
      events_.ended(uid);
    }
  }
}

const NodePod* NodePods::find(const std::string& uid) const {
  const auto found = pods_.find(uid);
  return found == pods_.end() ? nullptr : &found->second;
}

const NodePod* NodePods::find(const PodName& name) const {
  const auto found = std::ranges::find_if(pods_, [&](const auto& entry) {
    return entry.second.spec.name == name.name && entry.second.spec.namespace_name == name.namespace_name;
  });
  return found == pods_.end() ? nullptr : &found->second;
}

std::string NodePods::name_of_any(const std::string& uid) const {
  if (const NodePod* pod = find(uid)) {
    return pod->text();
  }
  const auto found = others_.find(uid);
  return found == others_.end() ? "" : found->second;
}

std::vector<const NodePod*> NodePods::in_bind_order() const {
  std::vector<const NodePod*> pods;
  pods.reserve(pods_.size());
  for (const auto& [uid, pod] : pods_) {
    pods.push_back(&pod);
  }
  std::ranges::sort(pods, {}, [](const NodePod* pod) { return pod->bound_at; });
  return pods;
}

}  // namespace tessera::agent
