#include "agent/gpu/foreign_watch.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>

#include "agent/devices/checkpoint.h"
#include "base/log.h"

namespace tessera::agent {

namespace {

// Returns the inode and the modification time.
std::pair<std::uint64_t, std::int64_t> stamp_of(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    return {};
  }
  return {status.st_ino, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace

ForeignWatch::ForeignWatch(const NodeContext& node, const GpuKind& kind, const std::string& plugin_dir,
                           std::chrono::milliseconds override_delay)
    : node_(node),
      kind_(kind),
      checkpoint_path_(plugin_dir + "/" + Checkpoint::kFile),
      override_delay_(override_delay) {}

std::optional<std::string> ForeignWatch::name_of_holder(const std::string& pod_uid) const {
  const NodePod* pod = node_.pods.find(pod_uid);
  // A pod with a valid record is in our ledger, even if the original plugin admitted it.
  if (pod != nullptr && kind_.decision_of(*pod).verdict == Verdict::kDecided) {
    return "";
  }
  std::string name = node_.pods.name_of_any(pod_uid);
  return name.empty() ? std::nullopt : std::optional(std::move(name));
}

// Returns the registered resources for which the checkpoint has named another plugin for at least
// override_delay_.
std::vector<std::string> ForeignWatch::lasting_overrides(const std::vector<std::string>& overridden,
                                                         const Registered& registered) {
  const auto now = Clock::real().now();
  std::map<std::string, Clock::Steady> since;
  std::vector<std::string> found;
  for (const std::string& resource : overridden) {
    if (!registered.contains(resource)) {
      continue;
    }
    const auto before = overridden_since_.find(resource);
    since[resource] = before == overridden_since_.end() ? now : before->second;
    if (now - since[resource] >= override_delay_) {
      found.push_back(resource);
    }
  }
  overridden_since_ = std::move(since);
  return found;
}

bool ForeignWatch::update(const alloc::Inventory& inventory, const Registered& registered) {
  const Result<Checkpoint> checkpoint = node_.checkpoints.read();
  if (!checkpoint) {
    return false;
  }
  ForeignUse now = find_foreign_use(*checkpoint, inventory, node_.names,
                                    [this](const std::string& uid) { return name_of_holder(uid); });
  // Keep checking: a resource that is not registered yet may be registered soon.
  override_suspected_ = !now.overridden.empty();
  now.overridden = lasting_overrides(now.overridden, registered);
  if (now == use_) {
    return false;
  }
  report_changes(now);
  use_ = std::move(now);
  return true;
}

bool ForeignWatch::update_if_changed(const alloc::Inventory& inventory, const Registered& registered) {
  const auto stamp = stamp_of(checkpoint_path_);
  // The result can also change without a new checkpoint, when a pod becomes known or ends.
  if (stamp == stamp_ && use_.held.empty() && !use_.has_unknown_pod && !override_suspected_) {
    return false;
  }
  stamp_ = stamp;
  return update(inventory, registered);
}

void ForeignWatch::report_changes(const ForeignUse& now) const {
  for (const std::string& resource : now.resources) {
    if (std::ranges::find(use_.resources, resource) == use_.resources.end()) {
      warn_about_node(
          "OtherDevicePlugin",
          fmt::format("another device plugin serves the GPUs of this node as {}: its pods and Tessera's "
                      "pods may get the same GPU; remove that plugin, or start tessera-agent with "
                      "--resource-whole {}",
                      resource, resource));
    }
  }
  for (const std::string& resource : now.overridden) {
    if (std::ranges::find(use_.overridden, resource) == use_.overridden.end()) {
      warn_about_node(
          "OtherDevicePlugin",
          fmt::format("another device plugin serves {} on this node, and kubelet uses the one that "
                      "registered last, so pods get GPUs that Tessera did not choose; remove one of "
                      "the two plugins",
                      resource));
    }
  }
  for (const auto& [uuid, why] : now.held) {
    if (!use_.held.contains(uuid)) {
      warn_about_node("GpuHeldElsewhere", fmt::format("GPU {} is not offered: {}", uuid, why));
    }
  }
}

void ForeignWatch::warn_about_node(const std::string& reason, const std::string& message) const {
  log::warn("another device plugin found", {{"reason", reason}, {"message", message}});
  node_.events.record(kube::EventNote::about_node(node_.node).as_warning(reason, message));
}

}  // namespace tessera::agent
