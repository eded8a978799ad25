// alloc/gpu_name.h
//
// The names and size of a GPU, as the annotations of the original systems need them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::alloc {

struct GpuName {
  std::string uuid;
  std::uint32_t index = 0;  // NVML index
  std::uint32_t units = 0;
};

// Returns the GPU with this UUID; null if the node does not have it.
inline const GpuName* find_gpu(std::span<const GpuName> gpus, std::string_view uuid) {
  const auto found = std::ranges::find(gpus, uuid, &GpuName::uuid);
  return found == gpus.end() ? nullptr : &*found;
}

}  // namespace tessera::alloc
