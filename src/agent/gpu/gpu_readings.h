// agent/gpu/gpu_readings.h
//
// Metrics of the GPUs, of the containers that use them, and of the driver. docs/reference.md lists
// every name. Pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "agent/devices/readings.h"
#include "agent/gpu/gpu_kind.h"
#include "agent/gpu/memory_watch.h"
#include "agent/gpu/usage.h"
#include "gpu/call_monitor.h"
#include "gpu/driver_state.h"

namespace tessera::agent {

// Memory, use, health and errors of each GPU. `uses` contains what is allocated.
void add_gpus(Readings& readings, const gpu::DriverState& state, const UsageSample& sample,
              const std::vector<MemoryUse>& uses);
// Allocation and use of each container on each of its GPUs.
void add_containers(Readings& readings, const gpu::DriverState& state, const std::vector<MemoryUse>& uses,
                    const MemoryWatch& watch);
void add_driver(Readings& readings, const gpu::DriverState& state, const gpu::CallMonitor::Counts& calls,
                bool hangs, std::optional<std::chrono::nanoseconds> sample_age);
// How kubelet's calls were answered, in addition to what is counted for any kind.
void add_gpu_counts(Readings& readings, const GpuKind::Counts& counts);

}  // namespace tessera::agent
