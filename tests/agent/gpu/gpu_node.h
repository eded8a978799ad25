// Inventories for tests.
#pragma once

#include <fmt/core.h>

#include "alloc/inventory.h"

namespace tessera::agent {

// Returns `count` V100 GPUs with 32 GiB and the UUIDs GPU-0, GPU-1 and so on.
inline alloc::Inventory v100s(unsigned count) {
  alloc::Inventory inventory;
  inventory.driver = "550.54.15";
  inventory.machine = "DGX-1";
  inventory.topology = topology::Topology(count);
  for (unsigned i = 0; i < count; ++i) {
    inventory.gpus.push_back({.uuid = fmt::format("GPU-{}", i),
                              .index = i,
                              .minor = static_cast<std::int32_t>(i),
                              .model = "Tesla V100-SXM2-32GB",
                              .memory_mib = 32768,
                              .reserved_mib = 271});
    for (unsigned j = 0; j < i; ++j) {
      inventory.topology.set_link(i, j, {.path = topology::PciePath::kPhb, .nvlinks = 2, .generation = 2});
    }
  }
  return inventory;
}

}  // namespace tessera::agent
