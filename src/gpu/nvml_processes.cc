// The calls of Nvml that list the processes on a GPU.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/nvml.h"
#include "gpu/nvml_call.h"

namespace tessera::gpu {

template <class Info>
NvmlResult<std::vector<Info>> Nvml::process_list(std::string_view name,
                                                 abi::Return (*function)(abi::Device, unsigned*, Info*),
                                                 abi::Device gpu) {
  constexpr unsigned kMost = 65'536;
  std::vector<Info> infos(16);
  // Processes may start between two calls, so each retry leaves more room than was needed.
  for (int attempt = 0; attempt < 6; ++attempt) {
    auto count = static_cast<unsigned>(infos.size());
    const auto status = call(name, function, gpu, &count, infos.data());
    if (status) {
      infos.resize(std::min<std::size_t>(count, infos.size()));
      return infos;
    }
    if (status.error().code != abi::kInsufficientSize) {
      return tl::unexpected(status.error());
    }
    infos.resize(std::min(std::max(count, static_cast<unsigned>(infos.size())) * 2, kMost));
  }
  return tl::unexpected(make_error(abi::kInsufficientSize, name));
}

NvmlResult<std::vector<GpuProcess>> Nvml::processes(abi::Device gpu) {
  const NvmlFunctions& f = library_.functions();
  // By pid, because a process can be in several lists. Take the largest known memory use.
  std::map<std::uint32_t, std::optional<std::uint64_t>> found;
  const auto add = [&found](const auto& infos) {
    for (const auto& info : infos) {
      auto& used = found[info.pid];
      if (info.used_memory != abi::kMemoryNotAvailable) {
        used = std::max(used.value_or(0), info.used_memory);
      }
    }
  };
  const auto compute = process_list("nvmlDeviceGetComputeRunningProcesses_v3", f.device_get_processes, gpu);
  if (compute) {
    add(*compute);
  } else if (!compute.error().unsupported()) {
    return tl::unexpected(compute.error());
  } else {
    const auto plain = process_list("nvmlDeviceGetComputeRunningProcesses", f.device_get_processes_v1, gpu);
    if (!plain) {
      return tl::unexpected(plain.error());
    }
    add(*plain);
  }
  if (const auto graphics =
          process_list("nvmlDeviceGetGraphicsRunningProcesses_v3", f.device_get_graphics_processes, gpu)) {
    add(*graphics);
  }
  if (const auto mps =
          process_list("nvmlDeviceGetMPSComputeRunningProcesses_v3", f.device_get_mps_processes, gpu)) {
    add(*mps);
  }
  std::vector<GpuProcess> processes;
  for (const auto& [pid, used] : found) {
    processes.push_back({.pid = pid, .used_bytes = used});
  }
  return processes;
}

NvmlResult<std::map<std::uint32_t, std::uint32_t>> Nvml::process_utilization(abi::Device gpu,
                                                                             Clock::Wall since) {
  constexpr std::string_view kName = "nvmlDeviceGetProcessUtilization";
  constexpr unsigned kMost = 65'536;
  const auto since_us = static_cast<unsigned long long>(
      std::chrono::duration_cast<std::chrono::microseconds>(since.time_since_epoch()).count());
  std::vector<abi::ProcessUtilization> samples(128);
  auto count = static_cast<unsigned>(samples.size());
  auto status =
      call(kName, library_.functions().device_get_process_utilization, gpu, samples.data(), &count, since_us);
  if (!status && status.error().code == abi::kInsufficientSize && count > samples.size()) {
    samples.resize(std::min(count, kMost));
    count = static_cast<unsigned>(samples.size());
    status = call(kName, library_.functions().device_get_process_utilization, gpu, samples.data(), &count,
                  since_us);
  }
  std::map<std::uint32_t, std::uint32_t> busy;
  if (!status) {
    if (status.error().code == abi::kNotFound) {
      return busy;  // no process used the GPU
    }
    return tl::unexpected(status.error());
  }
  samples.resize(std::min<std::size_t>(count, samples.size()));
  std::map<std::uint32_t, std::pair<std::uint64_t, std::uint32_t>> sums;
  for (const abi::ProcessUtilization& sample : samples) {
    auto& [sum, number] = sums[sample.pid];
    sum += std::min<std::uint32_t>(sample.sm, 100);
    ++number;
  }
  for (const auto& [pid, entry] : sums) {
    busy[pid] = static_cast<std::uint32_t>(entry.first / entry.second);
  }
  return busy;
}

}  // namespace tessera::gpu
