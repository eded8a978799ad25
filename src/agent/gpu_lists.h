// agent/gpu_lists.h
//
// The GPUs of this node as kubelet counts them: shares for gpu-mem, whole ones for gpu and gpu-count. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/device_kind.h"
#include "agent/gpu_ids.h"
#include "alloc/inventory.h"

namespace tessera::agent {

struct GpuLists {
  std::vector<Device> shares;
  std::vector<Device> whole;

  friend bool operator==(const GpuLists&, const GpuLists&) = default;
};

// IDs that containers hold at the moment. They stay in the lists, as unhealthy, also when their GPU has gone:
// kubelet does not count an ID that vanished, and would give its room to others.
struct HeldIds {
  std::set<std::string> shares;
  std::set<std::string> whole;
};

// All shares of a GPU are ill together with it.
GpuLists make_lists(const alloc::Inventory& inventory, GpuIds& ids, const HeldIds& held);

}  // namespace tessera::agent
