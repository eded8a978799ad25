#include "agent/foreign_watch.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "agent/checkpoint.h"

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

ForeignWatch::ForeignWatch(std::string plugin_dir, const alloc::ResourceNames& names, Edges edges)
    : plugin_dir_(std::move(plugin_dir)), names_(names), edges_(std::move(edges)) {}

bool ForeignWatch::look(const alloc::Inventory& inventory) {
  const Result<Checkpoint> checkpoint = Checkpoint::read(plugin_dir_);
  if (!checkpoint) {
    return false;
  }
  ForeignUse now = find_foreign_use(*checkpoint, inventory, names_, edges_.holder);
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
  if (stamp == stamp_ && use_.held.empty() && !use_.unclear) {
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
  for (const auto& [uuid, why] : now.held) {
    if (!use_.held.contains(uuid)) {
      edges_.tell("GpuHeldElsewhere", fmt::format("GPU {} is not offered: {}", uuid, why));
    }
  }
}

}  // namespace tessera::agent
