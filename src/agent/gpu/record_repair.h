// agent/gpu/record_repair.h
//
// What has to be written to a pod so that its annotations describe what its containers have. Pure.
//
// The extender writes all annotations with the Binding, so there is usually nothing to do. A repair
// is needed if a container got what was meant for another pod (a kubelet without podresources Get),
// if an original scheduler placed the pod (it knows GPUs by index and waits for ASSIGNED to become
// "true"), if there is only one GPU and no scheduler decided, and if the driver has renumbered its
// GPUs since.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "agent/devices/allocations.h"
#include "alloc/inventory.h"
#include "alloc/names.h"
#include "alloc/pod.h"
#include "alloc/record.h"
#include "alloc/request.h"
#include "base/result.h"

namespace tessera::agent {

// Convert between the shares of the agent and those of a record.
std::vector<alloc::GpuShare> record_shares(const std::vector<DeviceShare>& shares);
std::vector<DeviceShare> shares_of(const alloc::Record& record, const std::string& container);

struct RecordRepair {
  // Annotations to set, or to remove if there is no value. Empty when nothing has to change.
  std::map<std::string, std::optional<std::string>> annotations{};
  // The pod has other GPUs than its record says. The extender's ledger is wrong until this is
  // written, so the container waits for it.
  bool changes_gpus = false;

  // The body of a merge patch. It contains the UID, so that it does not apply to another pod of
  // that name.
  [[nodiscard]] std::string patch(const std::string& pod_uid) const;
};

// Returns `decided` with what the containers really got in its place, except for containers whose
// CDI name will stand for what is decided (`can_update`: DeliveryStrategy::can_update). Fails, and
// says why, if a container got nothing, or not what it requests, or something that the pod's own
// annotations rule out.
Result<alloc::Record> record_as_allocated(const alloc::PodSpec& pod, const alloc::Record& decided,
                                          const Allocations& allocations, const alloc::Inventory& inventory,
                                          const alloc::ResourceNames& names, bool can_update);

// Returns what differs between the pod's annotations and `truth`. Fails if `truth` names a GPU that
// is not here.
Result<RecordRepair> repair_of(const alloc::PodSpec& pod, const alloc::GpuRequest& request,
                               const alloc::Record& truth, const alloc::Inventory& inventory,
                               std::int64_t now_ns);

}  // namespace tessera::agent
