// agent/gpu/foreign_use.h
//
// Finds, in kubelet's checkpoint, GPUs of this node that another device plugin allocates. The other
// plugin may be NVIDIA's, or one that ran on this node before. Pure.
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
  // Tessera's resources that another plugin serves as well. For such a resource, kubelet's
  // checkpoint lists IDs that do not have the form of Tessera's IDs.
  std::vector<std::string> overridden;
  // GPUs that a pod holds through another plugin, by UUID. The value says which pod and which
  // resource. Tessera must not allocate these GPUs.
  std::map<std::string, std::string> held;
  // True if a pod that is not known has a GPU through another plugin. Either the pod has ended, or
  // the watch has not reported it yet.
  bool has_unknown_pod = false;

  friend bool operator==(const ForeignUse&, const ForeignUse&) = default;
};

// Returns the name of a pod of this node, to report the pod as the holder of a GPU. Returns "" if
// the pod has a valid record: the extender's ledger already counts the GPUs of such a pod. Returns
// nullopt if the pod is unknown.
using NameOfHolder = std::function<std::optional<std::string>(const std::string& pod_uid)>;

ForeignUse find_foreign_use(const Checkpoint& checkpoint, const alloc::Inventory& inventory,
                            const alloc::ResourceNames& names, const NameOfHolder& name_of_holder);

// A container that holds a GPU through another plugin.
struct ForeignHolder {
  std::string pod_uid;
  std::string container;
  std::string gpu;  // UUID

  friend auto operator<=>(const ForeignHolder&, const ForeignHolder&) = default;
};

std::vector<ForeignHolder> foreign_holders(const Checkpoint& checkpoint, const alloc::Inventory& inventory);

// Returns the inventory to publish. GPUs that are held through another plugin are unhealthy in it,
// and `also_served_as` lists the resources of other plugins.
alloc::Inventory without_foreign(const alloc::Inventory& inventory, const ForeignUse& foreign);

}  // namespace tessera::agent
