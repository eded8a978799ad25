// agent/gpu/gpu_lists.h
//
// The GPUs of this node as kubelet counts them: shares for gpu-mem, whole ones for gpu and gpu-count. Pure.
#pragma once

#include <vector>

#include "agent/devices/device.h"
#include "agent/gpu/gpu_ids.h"
#include "alloc/inventory.h"

namespace tessera::agent {

struct GpuLists {
  std::vector<Device> shares;
  std::vector<Device> whole;

  friend bool operator==(const GpuLists&, const GpuLists&) = default;
};

// All shares of a GPU are ill together with it.
GpuLists make_lists(const alloc::Inventory& inventory, GpuIds& ids);

}  // namespace tessera::agent
