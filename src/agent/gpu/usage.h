// agent/gpu/usage.h
//
// Computes how much of which GPU each container uses. Groups the processes on the GPUs by container
// and compares them with the allocations. Pure; usage_watch.h reads the processes from the driver.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/allocation.h"
#include "agent/devices/process_container.h"
#include "alloc/units.h"
#include "gpu/driver.h"

namespace tessera::agent {

// The use of one GPU by all its processes.
struct SampledGpu {
  std::string uuid;
  std::optional<gpu::GpuUsage> usage{};  // nullopt: the GPU did not answer
  std::uint64_t outside_bytes = 0;       // used by processes that belong to no pod
};

// The use of one GPU by one container.
struct ContainerUse {
  ContainerRef container;
  std::string gpu;          // UUID
  std::uint64_t bytes = 0;  // used by those processes whose memory the driver reports
  std::uint32_t processes = 0;
  std::optional<std::uint32_t> busy_percent{};  // of the time; nullopt: not reported
};

struct UsageSample {
  std::vector<SampledGpu> gpus;
  std::vector<ContainerUse> containers;  // sorted by container, then GPU
};

using ContainerOfProcess = std::function<std::optional<ContainerRef>(std::uint32_t pid)>;

// Groups the processes on the GPUs by container.
UsageSample summarize(const std::vector<gpu::GpuSample>& gpus, const ContainerOfProcess& container_of);

// One container's allocation on one GPU, and its use of that GPU.
struct MemoryUse {
  ContainerName who;                               // only the pod UID if the pod requests no GPU
  std::string gpu{};                               // UUID
  std::optional<std::uint64_t> allowed_bytes = 0;  // nullopt: the whole GPU, or unknown
  std::uint64_t used_bytes = 0;
  std::uint32_t processes = 0;
  std::optional<std::uint32_t> busy_percent{};
  // Facts about the container, if its pod is known.
  alloc::ContainerKind kind = alloc::ContainerKind::kMain;
  std::uint32_t position = 0;  // among the containers of the pod
  bool finished = false;       // an init container that has ended

  // Returns false for an init container that has ended and has no process.
  [[nodiscard]] bool is_current() const { return !finished || processes > 0; }
};

// Returns how many bytes of one GPU are allocated to pods. Adds the containers of a pod up as
// Kubernetes does: an init container does not add to the containers that run after it. A container
// with the whole GPU counts as `all`, the memory of the GPU. The result is at most `all`.
std::uint64_t allocated_bytes(const std::vector<MemoryUse>& uses, const std::string& gpu, std::uint64_t all);

// Returns whether another device plugin allocated the GPU to the container. If the name of the
// container is unknown, returns whether any container of its pod got the GPU that way.
using AllocatedElsewhere = std::function<bool(const ContainerName& who, const std::string& gpu)>;

// Returns one entry for each pair of container and GPU that is allocated or used. Calls
// `allocated_elsewhere` only for containers that use a GPU which Tessera did not allocate to them.
std::vector<MemoryUse> memory_uses(const UsageSample& sample, const std::vector<Allocation>& allocations,
                                   const std::vector<const alloc::PodSpec*>& pods, alloc::Unit unit,
                                   const AllocatedElsewhere& allocated_elsewhere = {});

}  // namespace tessera::agent
