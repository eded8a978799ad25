// agent/gpu/record_repair.h
//
// What has to be written to a pod so that its annotations say what its containers have. Pure.
//
// The extender writes all of them with the Binding, so that there is mostly nothing to do. There is when
// kubelet's answers were given to another pod than was meant (a kubelet without podresources Get), when the
// pod was placed by an old scheduler, which knows GPUs by index and waits for ASSIGNED to become "true", when
// there was only one GPU and nobody decided, and when the driver has counted its GPUs anew since.
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

// What a container has, in the words of the record, and the other way round.
std::vector<alloc::GpuShare> grants_of(const std::vector<Share>& shares);
std::vector<Share> shares_of(const alloc::Record& record, const std::string& container);

struct RecordRepair {
  // Annotations to set; without a value: to remove. Empty when all is right.
  std::map<std::string, std::optional<std::string>> annotations{};
  // The pod has other GPUs than its record says. The ledger of the extender are wrong until this is written,
  // so the container waits for it.
  bool moves = false;

  // The body of a merge patch. It names the UID, so that no other pod of that name is written to.
  [[nodiscard]] std::string patch(const std::string& pod_uid) const;
};

// `decided` with what the containers were really given in its place, but for those whose CDI name will stand
// for what is decided (`mends`: GrantStrategy::can_mend). Fails, and says why, when that is
// nothing, is not what they asked for, or is what the pod's own annotations rule out.
Result<alloc::Record> record_as_given(const alloc::PodSpec& pod, const alloc::Record& decided,
                                      const Allocations& allocations, const alloc::Inventory& inventory,
                                      const alloc::ResourceNames& names, bool mends);

// What differs between the pod's annotations and `truth`. Fails when `truth` names a GPU that is not here.
Result<RecordRepair> repair_of(const alloc::PodSpec& pod, const alloc::GpuRequest& request,
                               const alloc::Record& truth, const alloc::Inventory& inventory,
                               std::int64_t now_ns);

}  // namespace tessera::agent
