// agent/gpu/gpu_readings.h
//
// The metrics of GPUs, of the containers that use them, and of the driver. docs/reference.md lists
// all names. Pure functions.
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

// Adds memory, utilization, health and errors of each GPU. The allocated memory is from `uses`.
void add_gpus(Readings& readings, const gpu::DriverState& state, const UsageSample& sample,
              const std::vector<MemoryUse>& uses);
// Adds allocation and use of each container on each of its GPUs.
void add_containers(Readings& readings, const gpu::DriverState& state, const std::vector<MemoryUse>& uses,
                    const MemoryWatch& watch);
// Adds the state of the driver, the counts of driver calls, and the number of missing GPUs. `hangs`
// is true while a driver call does not return. `sample_age` is nullopt before the first sample.
void add_driver(Readings& readings, const gpu::DriverState& state, const gpu::CallMonitor::Counts& calls,
                bool hangs, std::optional<std::chrono::nanoseconds> sample_age);
// Adds the counts that only GPUs have: repaired records, and results of Allocate such as
// "lost_gpu". Plugins::add_readings() adds the counts that every kind of device has.
void add_gpu_counts(Readings& readings, const GpuKind::Counts& counts);

}  // namespace tessera::agent
