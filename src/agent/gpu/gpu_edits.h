// agent/gpu/gpu_edits.h
//
// What is changed in a container so that it reaches these GPUs and no others: device nodes, the files of the
// driver, NVIDIA_VISIBLE_DEVICES.
#pragma once

#include <vector>

#include "agent/devices/device.h"
#include "agent/gpu/driver_files.h"
#include "alloc/inventory.h"
#include "base/result.h"

namespace tessera::agent {

// For no GPU: that it must see none. Fails with what is missing of the driver and how to get it.
Result<Edits> gpu_edits(DriverFilesCache& files, const std::vector<alloc::Gpu>& gpus);

}  // namespace tessera::agent
