// agent/gpu/usage.h
//
// Which container uses how much of which GPU at a moment: the driver's processes, grouped by
// container and compared with the containers' allocations. Pure; usage_watch.h asks the driver.
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

struct SampledGpu {
  std::string uuid;
  std::optional<gpu::GpuUsage> usage{};  // nothing: the GPU did not answer
  std::uint64_t outside_bytes = 0;       // by processes of no pod
};

// What a container uses of one GPU.
struct ContainerUse {
  ContainerRef container;
  std::string gpu;          // UUID
  std::uint64_t bytes = 0;  // of the processes whose memory the driver reports
  std::uint32_t processes = 0;
  std::optional<std::uint32_t> busy_percent{};  // of the time; nothing if the driver does not report it
};

struct UsageSample {
  std::vector<SampledGpu> gpus;
  std::vector<ContainerUse> containers;  // by container, then GPU
};

using ContainerOfProcess = std::function<std::optional<ContainerRef>(std::uint32_t pid)>;

UsageSample summarize(const std::vector<gpu::GpuSample>& gpus, const ContainerOfProcess& container_of);

// What a container has and uses of one GPU.
struct MemoryUse {
  ContainerName who;                               // without names if the pod requests no GPU
  std::string gpu{};                               // UUID
  std::optional<std::uint64_t> allowed_bytes = 0;  // nothing: all of it, or not known
  std::uint64_t used_bytes = 0;
  std::uint32_t processes = 0;
  std::optional<std::uint32_t> busy_percent{};
  // Of the container, where its pod is known.
  alloc::ContainerKind kind = alloc::ContainerKind::kMain;
  std::uint32_t position = 0;  // in the order of the pod
  bool finished = false;       // an init container that has ended

  // False for an init container that has ended and has no process.
  [[nodiscard]] bool is_current() const { return !finished || processes > 0; }
};

// What pods hold of one GPU, added up as Kubernetes does: an init container does not add to the
// containers that run after it. `all` if a container has the whole GPU, and at most that.
std::uint64_t allocated_bytes(const std::vector<MemoryUse>& uses, const std::string& gpu, std::uint64_t all);

// Whether another device plugin allocated the GPU to the container; to any container of its pod if
// its name is not known.
using AllocatedElsewhere = std::function<bool(const ContainerName& who, const std::string& gpu)>;

// Returns one entry for each pair of container and GPU that is allocated or used. `allocated_elsewhere`
// is asked only about containers that use a GPU without an allocation of ours.
std::vector<MemoryUse> memory_uses(const UsageSample& sample, const std::vector<Allocation>& allocations,
                                   const std::vector<const alloc::PodSpec*>& pods, alloc::Unit unit,
                                   const AllocatedElsewhere& allocated_elsewhere = {});

}  // namespace tessera::agent
