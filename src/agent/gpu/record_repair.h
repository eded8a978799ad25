// agent/gpu/record_repair.h
//
// Computes the changes to a pod's annotations that make them match what its containers have. Pure.
//
// The extender writes all annotations with the Binding, so usually nothing has to change. A repair
// is needed if
//   - a container got what was meant for another pod (kubelet without podresources Get),
//   - an original scheduler placed the pod: it names GPUs by index and waits for ASSIGNED to become
//     "true",
//   - the node has one GPU and no scheduler made a choice,
//   - the driver has renumbered its GPUs since the annotations were written, or
//   - another client has removed or changed the annotations since the pod started.
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

// Convert between DeviceShare and the shares of a record.
std::vector<alloc::GpuShare> record_shares(const std::vector<DeviceShare>& shares);
std::vector<DeviceShare> shares_of(const alloc::Record& record, const std::string& container);

struct RecordRepair {
  // The annotations to set, or to remove if the value is nullopt. Empty if nothing has to change.
  std::map<std::string, std::optional<std::string>> annotations{};
  // True if the pod's GPUs differ from its record. The extender's ledger is then wrong until
  // the repair is written, so the container must not start earlier.
  bool changes_gpus = false;

  // Returns the body of a merge patch. The patch contains the pod's UID, so the API server rejects
  // it if the name now belongs to another pod.
  [[nodiscard]] std::string patch(const std::string& pod_uid) const;
};

// Returns the record that the pod should have: `decided`, but with the shares that each container
// was admitted with. If `can_update` (DeliveryStrategy::can_update) is true, the agent can still
// change the GPUs of a container with a CDI name. Such a container keeps the shares in `decided`.
// Fails if any other container was admitted without a GPU, with amounts that differ from its request,
// or with GPUs that the pod's annotations do not allow.
Result<alloc::Record> record_as_allocated(const alloc::PodSpec& pod, const alloc::Record& decided,
                                          const Allocations& allocations, const alloc::Inventory& inventory,
                                          const alloc::ResourceNames& names, bool can_update);

// Returns the GPUs that the containers of a started pod were allocated, whatever its annotations say
// now. For a container without an allocation, returns its shares in `decided`; a container that has no
// shares there either is left out. The order of the containers is that of `decided`.
alloc::Record given_record(const alloc::PodSpec& pod, const alloc::GpuRequest& request,
                           const alloc::Record& decided, const Allocations& allocations);

// The facts about a pod that decide which annotations it should have.
struct RepairFacts {
  alloc::Record truth;   // the GPUs that the pod really has
  bool started = false;  // a container has started with them
  std::int64_t now_ns = 0;
};

// Returns the changes that turn the pod's annotations into those for `facts.truth`. Before the pod
// has started, annotations of an original scheduler stay unchanged, and missing ones are not added
// to a valid record. Fails if `facts.truth` names a GPU that is not on this node, or differs from the
// request.
Result<RecordRepair> repair_of(const alloc::PodSpec& pod, const alloc::GpuRequest& request,
                               const alloc::Inventory& inventory, const RepairFacts& facts);

}  // namespace tessera::agent
