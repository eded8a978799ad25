#include "agent/gpu/foreign_use.h"

#include <fmt/core.h>

#include <algorithm>

#include "agent/gpu/gpu_devices.h"

namespace tessera::agent {

namespace {

// Returns the GPU whose UUID the ID begins with, or null. NVIDIA's plugin uses the UUID, followed
// by "::2" for replicas; gpushare's plugin uses "<uuid>-_-12".
const alloc::Gpu* gpu_of(const alloc::Inventory& inventory, const std::string& id) {
  const auto found = std::ranges::find_if(inventory.gpus, [&](const alloc::Gpu& gpu) {
    return !gpu.uuid.empty() && id.starts_with(gpu.uuid) &&
           (id.size() == gpu.uuid.size() || id.compare(gpu.uuid.size(), 2, "::") == 0 ||
            id.compare(gpu.uuid.size(), 3, "-_-") == 0);
  });
  return found == inventory.gpus.end() ? nullptr : &*found;
}

// With gpushare's plugin, kubelet may take any IDs, from any number of GPUs; the IDs do not say
// which GPU the pod has. The pod's annotations do, and then the GPU is in our ledger. Without
// annotations the pod has no GPU.
bool names_no_gpu(const std::string& id) {
  return id.find("-_-") != std::string::npos;
}

}  // namespace

ForeignUse find_foreign_use(const Checkpoint& checkpoint, const alloc::Inventory& inventory,
                            const alloc::ResourceNames& names, const NameOfHolder& name_of_holder) {
  ForeignUse use;
  for (const auto& [resource, ids] : checkpoint.registered) {
    const bool serves =
        std::ranges::any_of(ids, [&](const std::string& id) { return gpu_of(inventory, id) != nullptr; });
    if (serves && !names.find(resource)) {
      use.resources.push_back(resource);
    }
    if (names.find(resource) && !std::ranges::all_of(ids, GpuIds::is_ours)) {
      use.overridden.push_back(resource);
    }
  }
  for (const CheckpointEntry& entry : checkpoint.entries) {
    const bool under_our_name = names.find(entry.resource).has_value();
    for (const std::string& id : entry.ids) {
      const bool names_gpu = !GpuIds::is_ours(id) && !(under_our_name && names_no_gpu(id));
      const alloc::Gpu* gpu = names_gpu ? gpu_of(inventory, id) : nullptr;
      if (gpu == nullptr || use.held.contains(gpu->uuid)) {
        continue;
      }
      const std::optional<std::string> holder = name_of_holder(entry.pod_uid);
      use.has_unknown_pod = use.has_unknown_pod || !holder;
      if (holder && !holder->empty()) {
        use.held[gpu->uuid] =
            fmt::format("pod {} has it through {} of another device plugin", *holder, entry.resource);
      }
    }
  }
  return use;
}

std::vector<ForeignHolder> foreign_holders(const Checkpoint& checkpoint, const alloc::Inventory& inventory) {
  std::vector<ForeignHolder> holders;
  for (const CheckpointEntry& entry : checkpoint.entries) {
    for (const std::string& id : entry.ids) {
      const alloc::Gpu* gpu = GpuIds::is_ours(id) ? nullptr : gpu_of(inventory, id);
      if (gpu != nullptr) {
        holders.push_back({.pod_uid = entry.pod_uid, .container = entry.container, .gpu = gpu->uuid});
      }
    }
  }
  return holders;
}

alloc::Inventory without_foreign(const alloc::Inventory& inventory, const ForeignUse& foreign) {
  alloc::Inventory ours = inventory;
  ours.also_served_as = foreign.resources;
  ours.also_served_as.insert(ours.also_served_as.end(), foreign.overridden.begin(), foreign.overridden.end());
  ours.also_served_as.resize(std::min(ours.also_served_as.size(), alloc::Inventory::kMaxResources));
  for (alloc::Gpu& gpu : ours.gpus) {
    const auto held = foreign.held.find(gpu.uuid);
    if (held != foreign.held.end() && gpu.healthy()) {
      gpu.unhealthy = held->second;
    }
  }
  return ours;
}

}  // namespace tessera::agent
