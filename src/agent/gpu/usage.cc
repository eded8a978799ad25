#include "agent/gpu/usage.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "agent/gpu/gpu_devices.h"

namespace tessera::agent {

namespace {

// Adds a percentage, up to 100. Processes usually take turns on a GPU, but with MPS they run at the
// same time, and their sum can exceed 100.
void add(std::optional<std::uint32_t>& sum, std::optional<std::uint32_t> percent) {
  if (percent) {
    sum = std::min(sum.value_or(0) + *percent, 100U);
  }
}

// Returns whether the container requests GPUs. Also returns true if the pod requests GPUs and the
// name of the container is unknown. A container that requests GPUs and has no allocation was
// admitted by an earlier plugin.
bool may_request_gpus(const std::vector<const alloc::PodSpec*>& pods, const ContainerName& who) {
  const auto pod =
      std::ranges::find_if(pods, [&](const alloc::PodSpec* one) { return one->uid == who.pod_uid; });
  if (pod == pods.end()) {
    return false;
  }
  const auto& all = (*pod)->containers;
  const auto container = std::ranges::find(all, who.container, &alloc::ContainerSpec::name);
  return container == all.end() || !container->gpu_limits.empty();
}

// Sets the facts about the container in its pod.
void set_position(MemoryUse& use, const std::vector<const alloc::PodSpec*>& pods) {
  const auto pod =
      std::ranges::find_if(pods, [&](const alloc::PodSpec* one) { return one->uid == use.who.pod_uid; });
  if (pod == pods.end()) {
    return;
  }
  const auto& all = (*pod)->containers;
  const auto container = std::ranges::find(all, use.who.container, &alloc::ContainerSpec::name);
  if (container == all.end()) {
    return;
  }
  use.kind = container->kind;
  use.position = static_cast<std::uint32_t>(container - all.begin());
  use.finished = container->kind == alloc::ContainerKind::kInit &&
                 container->state == alloc::ContainerState::kTerminated;
}

// Returns false for a container that another plugin served under our resource name. Such a
// container has a GPU, but neither shares nor IDs of ours.
bool has_our_allocation(const Allocation& allocation) {
  return !allocation.shares.empty() || std::ranges::any_of(allocation.ids, [](const auto& entry) {
    return std::ranges::any_of(entry.second, GpuIds::is_ours);
  });
}

}  // namespace

UsageSample summarize(const std::vector<gpu::GpuSample>& gpus, const ContainerOfProcess& container_of) {
  UsageSample sample;
  std::map<std::pair<ContainerRef, std::string>, ContainerUse> containers;
  for (const gpu::GpuSample& sampled : gpus) {
    SampledGpu gpu{.uuid = sampled.uuid};
    if (sampled.usage) {
      gpu.usage = *sampled.usage;
    }
    for (const gpu::GpuProcess& process :
         sampled.processes ? *sampled.processes : std::vector<gpu::GpuProcess>{}) {
      const std::uint64_t bytes = process.used_bytes.value_or(0);
      const auto container = container_of(process.pid);
      if (!container) {
        gpu.outside_bytes += bytes;
        continue;
      }
      ContainerUse& use = containers[{*container, sampled.uuid}];
      use.container = *container;
      use.gpu = sampled.uuid;
      use.bytes += bytes;
      ++use.processes;
      add(use.busy_percent, process.busy_percent);
    }
    sample.gpus.push_back(std::move(gpu));
  }
  for (auto& [key, use] : containers) {
    sample.containers.push_back(std::move(use));
  }
  return sample;
}

std::vector<MemoryUse> memory_uses(const UsageSample& sample, const std::vector<Allocation>& allocations,
                                   const std::vector<const alloc::PodSpec*>& pods, alloc::Unit unit,
                                   const AllocatedElsewhere& allocated_elsewhere) {
  constexpr std::uint64_t kMib = 1U << 20U;
  std::map<std::pair<ContainerName, std::string>, MemoryUse> uses;
  std::set<ContainerName> recorded;
  const auto use_of = [&](const ContainerName& who, const std::string& gpu) -> MemoryUse& {
    MemoryUse& use = uses[{who, gpu}];
    use.who = who;
    use.gpu = gpu;
    return use;
  };
  for (const Allocation& allocation : allocations) {
    const ContainerName who{
        .pod = allocation.pod, .pod_uid = allocation.pod_uid, .container = allocation.container};
    if (has_our_allocation(allocation)) {
      recorded.insert(who);
    }
    for (const DeviceShare& share : allocation.shares) {
      MemoryUse& use = use_of(who, share.device);
      if (share.whole) {
        use.allowed_bytes.reset();
      } else if (use.allowed_bytes) {
        *use.allowed_bytes += std::uint64_t{share.units} * unit.in_mib() * kMib;
      }
    }
  }
  for (const ContainerUse& used : sample.containers) {
    const ContainerName unknown{.pod = {}, .pod_uid = used.container.pod_uid, .container = {}};
    const ContainerName who = name_of_container(pods, used.container).value_or(unknown);
    MemoryUse& use = use_of(who, used.gpu);
    const bool unrecorded = !recorded.contains(who);
    if (unrecorded &&
        (may_request_gpus(pods, who) || (allocated_elsewhere && allocated_elsewhere(who, used.gpu)))) {
      use.allowed_bytes.reset();  // its limit is unknown
    }
    use.used_bytes += used.bytes;
    use.processes += used.processes;
    add(use.busy_percent, used.busy_percent);
  }
  std::vector<MemoryUse> all;
  all.reserve(uses.size());
  for (auto& [key, use] : uses) {
    set_position(use, pods);
    all.push_back(std::move(use));
  }
  return all;
}

std::uint64_t allocated_bytes(const std::vector<MemoryUse>& uses, const std::string& gpu, std::uint64_t all) {
  std::map<std::string, std::vector<MemoryUse>> by_pod;
  for (const MemoryUse& use : uses) {
    if (use.gpu == gpu && !use.who.container.empty()) {
      by_pod[use.who.pod_uid].push_back(use);
    }
  }
  std::uint64_t bytes = 0;
  for (auto& [uid, containers] : by_pod) {
    std::ranges::stable_sort(containers, {}, &MemoryUse::position);
    bytes += static_cast<std::uint64_t>(alloc::counted(containers, [&](const MemoryUse& use) {
      return static_cast<std::int64_t>(use.allowed_bytes.value_or(all));
    }));
  }
  return std::min(bytes, all);
}

}  // namespace tessera::agent
