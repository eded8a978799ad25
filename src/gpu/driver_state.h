// gpu/driver_state.h
//
// The known state of this node's GPUs. An immutable value that is replaced when something changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "alloc/inventory.h"
#include "gpu/xid.h"

namespace tessera::gpu {

// The number of times a GPU reported an XID since this process started.
struct XidCount {
  std::string uuid;
  std::uint64_t xid = 0;
  XidClass severity = XidClass::kIgnored;
  std::uint64_t count = 0;

  friend bool operator==(const XidCount&, const XidCount&) = default;
};

struct DriverState {
  std::uint64_t version = 0;  // grows with every change; 0 before the first answer of the driver
  bool ready = false;         // the driver is initialized and answers
  std::string problem;        // why the driver is not ready and what to do; empty if it is ready

  // The GPUs in the order of their NVML indices, unhealthy ones with their reason. While the driver
  // is not ready: the last known GPUs, all unhealthy because of `problem`.
  alloc::Inventory inventory;
  std::vector<std::string> compute;  // compute capability of each GPU in inventory.gpus: "7.0", or empty
  std::string cuda;                  // "12.4", or empty

  // GPUs that the driver no longer lists, but that this process has seen or that were in
  // DriverOptions::known. `inventory` does not contain them, because another GPU may have their
  // index now.
  std::vector<alloc::Gpu> gone;

  // Descriptions, for the operator, of GPUs that could not be listed.
  std::vector<std::string> problems;
  // NVML functions that this driver lacks. This is not an error, but some facts are then unknown.
  std::vector<std::string> missing_functions;

  std::vector<XidCount> xids;  // sorted by UUID, then XID

  friend bool operator==(const DriverState&, const DriverState&) = default;
};

}  // namespace tessera::gpu
