// agent/gpu/foreign_use.h
//
// GPUs of this node that another device plugin allocates: NVIDIA's, or one that was here before.
// Found in kubelet's checkpoint. Pure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/checkpoint.h"
#include "alloc/inventory.h"
#include "alloc/names.h"

namespace tessera::agent {

struct ForeignUse {
  // Resources of other plugins whose devices are GPUs of this node.
  std::vector<std::string> resources;
  // Resources of ours that another plugin serves: kubelet has IDs in another form than ours.
  std::vector<std::string> overridden;
  // GPUs that a pod has through another plugin, by UUID, and how. They must not be allocated.
  std::map<std::string, std::string> held;
  // A pod that is not known has a GPU: it has ended, or it is so new that the watch has not
  // reported it.
  bool has_unknown_pod = false;

  friend bool operator==(const ForeignUse&, const ForeignUse&) = default;
};

// The name of a pod that has no valid record of ours; empty for a pod that has one; nothing for a
// pod that is not known.
using NameOfHolder = std::function<std::optional<std::string>(const std::string& pod_uid)>;

ForeignUse find_foreign_use(const Checkpoint& checkpoint, const alloc::Inventory& inventory,
                            const alloc::ResourceNames& names, const NameOfHolder& name_of_holder);

// A container that has a GPU through another plugin.
struct ForeignHolder {
  std::string pod_uid;
  std::string container;
  std::string gpu;  // UUID

  friend auto operator<=>(const ForeignHolder&, const ForeignHolder&) = default;
};

std::vector<ForeignHolder> foreign_holders(const Checkpoint& checkpoint, const alloc::Inventory& inventory);

// The inventory to publish: GPUs held through another plugin are unhealthy, and the other plugins
// are named.
alloc::Inventory without_foreign(const alloc::Inventory& inventory, const ForeignUse& foreign);

}  // namespace tessera::agent
