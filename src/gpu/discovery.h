// gpu/discovery.h
//
// The GPUs of this machine as an inventory. One bad GPU never hides the others:
//
//   lost, or not answering       listed as unhealthy when it is known from before (identity is the UUID, its
//                                row is taken over); else it has no UUID to be listed under, and a problem
//                                names its index
//   MIG enabled                  listed as unhealthy: its memory belongs to its instances
//   NVLink fabric not ready      listed as unhealthy until the fabric manager is done (Hopper and later)
//
// Runs on the driver's thread.
#pragma once

#include <string>
#include <vector>

#include "alloc/inventory.h"
#include "gpu/nvml.h"
#include "gpu/sysfs.h"

namespace tessera::gpu {

struct DiscoveryOptions {
  alloc::Unit unit;
  bool subtract_reserved = false;  // shares are made only of what the driver leaves (contract.md, Units)
  std::string machine{};           // kind of machine; empty: what sysfs calls the product
};

// What the inventory does not carry.
struct GpuFacts {
  abi::Device handle = nullptr;  // null: does not answer
  std::string compute;           // capability, "7.0"; empty when not told
  std::string unfit;             // why it cannot be used as it is configured (MIG, fabric); empty when it can
};

struct Discovery {
  alloc::Inventory inventory;         // `unhealthy` holds what discovery saw, not what health knows
  std::vector<GpuFacts> facts;        // of inventory.gpus
  std::string cuda;                   // "12.4"; empty when not told
  std::vector<std::string> problems;  // what could not be listed, in a person's words

  // The handle of a GPU, null when it does not answer or is not there.
  [[nodiscard]] abi::Device handle(std::string_view uuid) const;
};

// `before` is the last inventory known of this machine (of an earlier call, or of the node's annotation);
// empty at the very first. Fails only when the driver cannot even count its GPUs.
Result<Discovery> discover(Nvml& nvml, const Sysfs& sysfs, const DiscoveryOptions& options,
                           const alloc::Inventory& before);

// Why a GPU that answers cannot be used as it is configured: "" when it can.
std::string unfit_reason(Nvml& nvml, abi::Device gpu);

}  // namespace tessera::gpu
