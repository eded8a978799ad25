// alloc/gpu_name.h
//
// What a GPU is called by whom, and how large it is: what it takes to print a decision for old tools.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::alloc {

struct GpuName {
  std::string uuid;
  std::uint32_t index = 0;  // NVML's
  std::uint32_t units = 0;
};

// The GPU that a share names; null if the node does not have it.
inline const GpuName* find_gpu(std::span<const GpuName> gpus, std::string_view uuid) {
  const auto found = std::ranges::find(gpus, uuid, &GpuName::uuid);
  return found == gpus.end() ? nullptr : &*found;
}

}  // namespace tessera::alloc
