// agent/gpu/foreign_use.h
//
// GPUs of this node that somebody else gives out: NVIDIA's device plugin, or one that was here before us.
// Told by kubelet's checkpoint. Pure.
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
  // Resources of ours that kubelet has from another plugin: IDs in another form than ours are registered.
  std::vector<std::string> usurped;
  // GPUs that a pod has through another plugin, by UUID, and how: not to be given to anybody else.
  std::map<std::string, std::string> held;
  // Somebody has a GPU whose pod is not known: it has ended, or it is so new that the watch has not told.
  bool unclear = false;

  friend bool operator==(const ForeignUse&, const ForeignUse&) = default;
};

// The name of a pod that lives and is not in our own books; empty for one that is, nothing for one that is
// not known.
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

// The inventory as others should see it: GPUs held elsewhere are not to be used, and who else gives them out.
alloc::Inventory without_foreign(const alloc::Inventory& inventory, const ForeignUse& foreign);

}  // namespace tessera::agent
