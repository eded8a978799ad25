// agent/gpu/usage.h
//
// Who uses how much of which GPU at a moment: the driver's processes, brought together by container and held
// against what the containers were given. Pure; usage_sampler.h asks the driver.
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

struct GpuUse {
  std::string uuid;
  std::optional<gpu::GpuUsage> usage{};  // nothing: the GPU did not answer
  std::uint64_t outside_bytes = 0;       // by processes of no pod
};

// What a container uses of one GPU.
struct ContainerUse {
  ContainerRef container;
  std::string gpu;          // UUID
  std::uint64_t bytes = 0;  // of the processes whose memory the driver tells
  std::uint32_t processes = 0;
  std::optional<std::uint32_t> busy_percent{};  // of the time; nothing where the driver does not tell
};

struct UsageSample {
  std::vector<GpuUse> gpus;
  std::vector<ContainerUse> containers;  // by container, then GPU
};

using ContainerOfProcess = std::function<std::optional<ContainerRef>(std::uint32_t pid)>;

UsageSample summarize(const std::vector<gpu::GpuLook>& looks, const ContainerOfProcess& container_of);

// What a container has and uses of one GPU.
struct MemoryUse {
  ContainerName who;                               // without names when the pod asks for no GPU
  std::string gpu{};                               // UUID
  std::optional<std::uint64_t> allowed_bytes = 0;  // nothing: all of it, or not known
  std::uint64_t used_bytes = 0;
  std::uint32_t processes = 0;
  std::optional<std::uint32_t> busy_percent{};
  // Of the container, where its pod is known.
  alloc::ContainerKind kind = alloc::ContainerKind::kMain;
  std::uint32_t position = 0;  // in the order of the pod
  bool through = false;        // an init container that has ended

  // Whether the container has anything to tell of: one that is through and has no process has not.
  [[nodiscard]] bool is_of_now() const { return !through || processes > 0; }
};

// What pods hold of one GPU, counted as Kubernetes counts containers: an init container is not on top of
// those that run after it. `all` where a container has the whole GPU, and at most that.
std::uint64_t allocated_bytes(const std::vector<MemoryUse>& uses, const std::string& gpu, std::uint64_t all);

// Whether somebody else than us gave the GPU to the container; to any of its pod where it has no name.
using GivenElsewhere = std::function<bool(const ContainerName& who, const std::string& gpu)>;

// One for each pair of container and GPU that was given or is used. `given_elsewhere` is asked only about
// those who use what they did not get from us.
std::vector<MemoryUse> memory_uses(const UsageSample& sample, const std::vector<Allocation>& allocations,
                                   const std::vector<const alloc::PodSpec*>& pods, alloc::Unit unit,
                                   const GivenElsewhere& given_elsewhere = {});

}  // namespace tessera::agent
