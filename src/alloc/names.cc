#include "alloc/names.h"

#include <algorithm>
#include <array>

namespace tessera::alloc {

ResourceNames::ResourceNames(const Config& config)
    : memory_(config.prefix + "/gpu-mem"),
      whole_(config.whole.empty() ? config.prefix + "/gpu" : config.whole),
      count_(config.prefix + "/gpu-count"),
      core_(config.prefix + "/gpu-core.percentage") {}

std::optional<GpuResource> ResourceNames::find(std::string_view name) const {
  if (name == memory_) {
    return GpuResource::kMemory;
  }
  if (name == whole_) {
    return GpuResource::kWhole;
  }
  if (name == count_) {
    return GpuResource::kCount;
  }
  if (name == core_) {
    return GpuResource::kCorePercent;
  }
  return std::nullopt;
}

const std::string& ResourceNames::name(GpuResource resource) const {
  switch (resource) {
    case GpuResource::kMemory:
      return memory_;
    case GpuResource::kWhole:
      return whole_;
    case GpuResource::kCount:
      return count_;
    case GpuResource::kCorePercent:
      break;
  }
  return core_;
}

namespace key {

bool is_pod_annotation(std::string_view name) {
  static constexpr std::array kRead = {
      kPolicy, kPlacement, kGpuModel,      kGpuUuids,   kGpuUuidsExclude, kAllocation,
      kMemIdx, kMemPod,    kMemAllocation, kWholeGroup, kWholeIdx,
  };
  return std::ranges::find(kRead, name) != kRead.end();
}

}  // namespace key

}  // namespace tessera::alloc
