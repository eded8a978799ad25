// gpu/discovery.h
//
// Discovers the GPUs of this machine and builds the inventory. One bad GPU never hides the others:
//
//   lost, or does not answer   if the GPU is in the earlier inventory, it is kept and marked
//                              unhealthy; otherwise its UUID is unknown, and Discovery::problems
//                              names its index
//   MIG enabled                unhealthy: the memory belongs to the MIG instances
//   NVLink fabric not ready    unhealthy until the fabric manager is done (Hopper and later)
//
// Runs on the driver thread.
#pragma once

#include <string>
#include <vector>

#include "alloc/inventory.h"
#include "gpu/nvml.h"
#include "gpu/sysfs.h"

namespace tessera::gpu {

struct DiscoveryOptions {
  alloc::Unit unit;
  bool subtract_reserved = false;  // exclude memory that the driver reserves (contract.md, Units)
  std::string machine{};           // machine type; empty: the product name from sysfs
};

// Facts about a GPU that are not in the inventory.
struct GpuDetails {
  abi::Device handle = nullptr;  // null: does not answer
  std::string compute;           // compute capability, "7.0"; empty if unknown
  std::string unusable;          // why MIG or the fabric prevents its use; empty if nothing does
};

struct Discovery {
  alloc::Inventory inventory;         // `unhealthy` is from discovery only, not from HealthTracker
  std::vector<GpuDetails> details;    // one per GPU, in the order of inventory.gpus
  std::string cuda;                   // "12.4"; empty if unknown
  std::vector<std::string> problems;  // descriptions, for the operator, of GPUs that could not be listed

  // Returns the handle of a GPU, or null if the GPU does not answer or does not exist.
  [[nodiscard]] abi::Device handle(std::string_view uuid) const;
};

// Lists and reads all GPUs. `before` is the last known inventory of this machine, from an earlier
// call or from the node's annotation; empty if there is none. Fails only if the driver cannot count
// its GPUs.
Result<Discovery> discover(Nvml& nvml, const Sysfs& sysfs, const DiscoveryOptions& options,
                           const alloc::Inventory& before);

// Returns why the configuration of a GPU prevents its use, or "" if it can be used.
std::string unusable_reason(Nvml& nvml, abi::Device gpu);

}  // namespace tessera::gpu
