#include "agent/gpu/gpu_text.h"

#include <fmt/core.h>

namespace tessera::agent {

const KindWords& gpu_words() {
  static const KindWords words{.one = "GPU",
                               .many = "GPUs",
                               .unhealthy = "GpuUnhealthy",
                               .healthy = "GpuHealthy",
                               .gone = "GpuGone",
                               .appeared = "GpuAppeared",
                               .given_otherwise = "GpuAllocationMismatch",
                               .not_prepared = "GpuSetupFailed",
                               .condition = "GPUsHealthy",
                               .all_healthy = "AllGPUsHealthy",
                               .some_unhealthy = "GPUUnhealthy",
                               .none_there = "NoGPUs"};
  return words;
}

CdiKind gpu_cdi_kind() {
  return {"tessera.io/gpu", "tessera-"};
}

std::string name_of(const alloc::Gpu& gpu) {
  return fmt::format("GPU {} ({})", gpu.index, gpu.uuid);
}

std::string describe(const alloc::Gpu& gpu) {
  return gpu.model.empty() ? name_of(gpu) : fmt::format("GPU {} ({}, {})", gpu.index, gpu.model, gpu.uuid);
}

std::vector<NodeDevice> node_devices(const alloc::Inventory& inventory) {
  std::vector<NodeDevice> devices;
  for (const alloc::Gpu& gpu : inventory.gpus) {
    devices.push_back(
        {.id = gpu.uuid, .name = name_of(gpu), .description = describe(gpu), .unhealthy = gpu.unhealthy});
  }
  return devices;
}

}  // namespace tessera::agent
