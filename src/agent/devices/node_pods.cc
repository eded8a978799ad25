#include "agent/devices/node_pods.h"

#include <algorithm>

#include "agent/devices/allocations.h"
#include "base/log.h"
#include "objects/pod_decoder.h"

namespace tessera::agent {

bool NodePod::started() const {
  return std::ranges::any_of(spec.containers, [](const alloc::ContainerSpec& container) {
    return container.state != alloc::ContainerState::kNotStarted || container.ran_before;
  });
}

namespace {

bool same_record(const alloc::Annotations& one, const alloc::Annotations& other) {
  return std::ranges::all_of(alloc::key::kRecord, [&](std::string_view name) {
    const std::string* text = alloc::find_text(one, name);
    const std::string* other_text = alloc::find_text(other, name);
    return text == nullptr ? other_text == nullptr : other_text != nullptr && *text == *other_text;
  });
}

}  // namespace

NodePods::NodePods(const alloc::ResourceNames& names, std::vector<std::string> other_resources)
    : names_(&names), other_resources_(std::move(other_resources)) {}

void NodePods::add_resource(const std::string& resource) {
  if (!names_->find(resource) && std::ranges::find(other_resources_, resource) == other_resources_.end()) {
    other_resources_.push_back(resource);
  }
}

bool NodePods::admission_begun(const std::string& pod_uid) const {
  return std::ranges::any_of(allocations_,
                             [&](const Allocations* allocations) { return allocations->has_pod(pod_uid); });
}

// A listener may remove itself or others while it is called.
template <class Call>
void NodePods::notify(Call call) const {
  for (PodListener* listener : std::vector(listeners_)) {
    if (std::ranges::find(listeners_, listener) != listeners_.end()) {
      call(*listener);
    }
  }
}

std::int64_t NodePods::requested(const alloc::ContainerSpec& container, std::string_view resource) const {
  const auto amount = [](const auto& limits, const auto& name) -> std::int64_t {
    const auto found = std::ranges::find_if(limits, [&](const auto& limit) { return limit.first == name; });
    return found == limits.end() ? 0 : found->second.rounded_up();
  };
  const auto gpu = names_->find(resource);
  return gpu ? amount(container.gpu_limits, *gpu) : amount(container.other_limits, resource);
}

bool NodePods::requests_devices(const alloc::PodSpec& pod) {
  const auto any = [](const auto& limits) {
    return std::ranges::any_of(limits, [](const auto& limit) { return limit.second.rounded_up() > 0; });
  };
  return std::ranges::any_of(pod.containers, [&](const alloc::ContainerSpec& container) {
    return any(container.gpu_limits) || any(container.other_limits);
  });
}

Status NodePods::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  return objects::decode_pod(object, *names_, meta, decoded_,
                             {.container_ids = true, .resources = &other_resources_});
}

void NodePods::keep(const kube::ObjectMeta& meta) {
  put(decoded_, meta.version, true);
}

void NodePods::forget(const kube::ObjectMeta& meta) {
  newest_ = std::max(newest_, meta.version);
  remove(meta.uid);
}

// Keeps the last version that could be decoded, because its containers may be running.
void NodePods::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  log::warn("cannot decode pod", {{"pod", meta.namespace_name + "/" + meta.name}, {"error", error}});
}

void NodePods::synced() {
  // A pod that was fetched may have ended while the watch was interrupted. The watch never reports
  // the end of such a pod.
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
  // A list is not ordered by version, and an API server that was restored from a backup continues
  // from an earlier version.
  newest_ = 0;
  notify([](PodListener& listener) { listener.pods_synced(); });
}

void NodePods::put(const alloc::PodSpec& pod, std::uint64_t version, bool from_watch) {
  if (const auto known = pods_.find(pod.uid); known != pods_.end()) {
    known->second.from_watch = known->second.from_watch || from_watch;
    if (versions_[pod.uid] >= version) {
      return;
    }
  } else if (!from_watch && synced_ && version <= newest_) {
    return;
  }
  if (from_watch) {
    newest_ = std::max(newest_, version);
  }
  if (!alloc::occupies(pod) || !requests_devices(pod)) {
    remove(pod.uid);
    if (alloc::occupies(pod)) {
      other_pods_[pod.uid] = pod.namespace_name + "/" + pod.name;
    }
    return;
  }
  const auto [entry, is_new] = pods_.try_emplace(pod.uid);
  NodePod& kept = entry->second;
  if (is_new || !same_record(kept.spec.annotations, pod.annotations)) {
    kept.recorded_at = version;
  }
  kept.spec = pod;
  if (is_new) {
    kept.bound_at = version;
    kept.from_watch = from_watch;
  }
  versions_[pod.uid] = version;
  notify([&](PodListener& listener) { listener.pod_changed(kept); });
}

void NodePods::remove(const std::string& uid) {
  other_pods_.erase(uid);
  if (pods_.erase(uid) > 0) {
    versions_.erase(uid);
    notify([&](PodListener& listener) { listener.pod_removed(uid); });
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
  const auto found = other_pods_.find(uid);
  return found == other_pods_.end() ? "" : found->second;
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
