// gpu/driver_state.h
//
// What is known of this node's GPUs: a value, replaced as a whole when something changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "alloc/inventory.h"
#include "gpu/xid.h"

namespace tessera::gpu {

// How often a GPU reported an XID since this process started.
struct XidCount {
  std::string uuid;
  std::uint64_t xid = 0;
  XidClass taken_as = XidClass::kIgnored;
  std::uint64_t count = 0;

  friend bool operator==(const XidCount&, const XidCount&) = default;
};

struct DriverState {
  std::uint64_t version = 0;  // rises with every change; 0 before the first answer of the driver
  bool ready = false;         // the driver has been reached, and answers
  std::string problem;        // why it is not ready, and what to do; empty when it is

  // The GPUs in the order of NVML's indices, ill ones with their reason. While the driver is not ready: the
  // last ones known, all with the problem as reason.
  alloc::Inventory inventory;
  std::vector<std::string> compute;  // capability of each of inventory.gpus: "7.0", or empty
  std::string cuda;                  // "12.4", or empty

  // GPUs that were here once (in this process, or in the inventory it started with) and that the driver does
  // not list any more. Not in `inventory`, since their index may be another GPU's by now. Their reason says
  // that they are gone.
  std::vector<alloc::Gpu> gone;

  // What could not be listed at all, in a person's words.
  std::vector<std::string> problems;
  // Functions that this driver's library lacks; nothing is wrong, but some facts are not known.
  std::vector<std::string> missing_functions;

  std::vector<XidCount> xids;  // by UUID, then number

  friend bool operator==(const DriverState&, const DriverState&) = default;
};

}  // namespace tessera::gpu
