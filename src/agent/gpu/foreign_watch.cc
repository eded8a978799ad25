#include "agent/gpu/foreign_watch.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>

#include "agent/devices/checkpoint.h"

namespace tessera::agent {

namespace {

std::pair<std::uint64_t, std::int64_t> stamp_of(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    return {};
  }
  return {status.st_ino, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace

ForeignWatch::ForeignWatch(std::string plugin_dir, const alloc::ResourceNames& names, Edges edges,
                           std::chrono::milliseconds usurped_for)
    : plugin_dir_(std::move(plugin_dir)),
      names_(names),
      edges_(std::move(edges)),
      usurped_for_(usurped_for) {}

// Those of which the file has said so for a while.
std::vector<std::string> ForeignWatch::for_long(const std::vector<std::string>& usurped) {
  const auto now = Clock::real().now();
  std::map<std::string, Clock::Steady> since;
  std::vector<std::string> lasting;
  for (const std::string& resource : usurped) {
    if (!edges_.registered(resource)) {
      continue;
    }
    const auto before = usurped_since_.find(resource);
    since[resource] = before == usurped_since_.end() ? now : before->second;
    if (now - since[resource] >= usurped_for_) {
      lasting.push_back(resource);
    }
  }
  usurped_since_ = std::move(since);
  return lasting;
}

bool ForeignWatch::look(const alloc::Inventory& inventory) {
  const Result<Checkpoint> checkpoint = Checkpoint::read(plugin_dir_);
  if (!checkpoint) {
    return false;
  }
  ForeignUse now = find_foreign_use(*checkpoint, inventory, names_, edges_.holder);
  // While we are not registered we may be soon, and then the file may be new.
  usurper_looked_for_ = !now.usurped.empty();
  now.usurped = for_long(now.usurped);
  if (now == use_) {
    return false;
  }
  tell_what_is_new(now);
  use_ = std::move(now);
  return true;
}

bool ForeignWatch::look_again(const alloc::Inventory& inventory) {
  const auto stamp = stamp_of(plugin_dir_ + "/" + Checkpoint::kFile);
  // Pods come to be known and end without a word in the file.
  if (stamp == stamp_ && use_.held.empty() && !use_.unclear && !usurper_looked_for_) {
    return false;
  }
  stamp_ = stamp;
  return look(inventory);
}

void ForeignWatch::tell_what_is_new(const ForeignUse& now) const {
  for (const std::string& resource : now.resources) {
    if (std::ranges::find(use_.resources, resource) == use_.resources.end()) {
      edges_.tell(
          "OtherDevicePlugin",
          fmt::format("another device plugin serves the GPUs of this node as {}: pods that ask for it and "
                      "pods of Tessera may meet on one GPU; remove that plugin, or start tessera-agent "
                      "with --resource-whole {}",
                      resource, resource));
    }
  }
  for (const std::string& resource : now.usurped) {
    if (std::ranges::find(use_.usurped, resource) == use_.usurped.end()) {
      edges_.tell("OtherDevicePlugin",
                  fmt::format("another device plugin serves {} on this node, and kubelet takes the one that "
                              "registered last: pods get GPUs that Tessera did not choose; remove one of "
                              "the two",
                              resource));
    }
  }
  for (const auto& [uuid, why] : now.held) {
    if (!use_.held.contains(uuid)) {
      edges_.tell("GpuHeldElsewhere", fmt::format("GPU {} is not offered: {}", uuid, why));
    }
  }
}

}  // namespace tessera::agent
