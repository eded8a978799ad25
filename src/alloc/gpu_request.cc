#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "alloc/request.h"
#include "base/strings.h"

namespace tessera::alloc {

namespace {

// Returns what to write instead of `quantity`, for an amount of GPU memory with a suffix. Users
// write it as they write the memory of a container. Returns "" if that is not the mistake.
std::string suffix_advice(const Quantity& quantity) {
  const auto bytes = quantity.whole();
  if (!bytes || *bytes < 0 || quantity.text().find_first_of("kMGTPE") == std::string::npos) {
    return "";
  }
  const auto units = [&](std::int64_t unit) { return *bytes / unit + (*bytes % unit > 0 ? 1 : 0); };
  const std::int64_t gib = units(1LL << 30U);
  if (gib < 1 || gib > GpuRequest::kMostUnits) {
    return "";
  }
  return fmt::format(
      "it counts units of GPU memory and has no suffix: write {} if a unit is 1GiB, {} if it is 1MiB", gib,
      units(1LL << 20U));
}

// Returns the amount of one resource in a container's limits, 0 if it is absent. Fails if the
// amount is not a whole number from 0 to `most`.
Result<std::uint32_t> limit(const ContainerSpec& container, GpuResource resource, const ResourceNames& names,
                            std::uint32_t most) {
  for (const auto& [which, quantity] : container.gpu_limits) {
    if (which != resource) {
      continue;
    }
    const auto amount = quantity.whole();
    if (!amount || *amount < 0 || *amount > most) {
      if (const std::string advice = suffix_advice(quantity);
          resource == GpuResource::kMemory && !advice.empty()) {
        return fail(ErrorCode::kInvalid,
                    fmt::format("container {}: {} is {}, but {}", in_quotes(container.name),
                                names.name(resource), quantity.text(), advice));
      }
      return fail(ErrorCode::kInvalid,
                  fmt::format("container {}: {} is {}, not a whole number from 0 to {}",
                              in_quotes(container.name), names.name(resource), quantity.text(), most));
    }
    return static_cast<std::uint32_t>(*amount);
  }
  return std::uint32_t{0};
}

Result<ContainerRequest> request_of(const ContainerSpec& container, const ResourceNames& names) {
  constexpr std::uint32_t kMostGpus = 64;
  ContainerRequest request{.name = container.name, .kind = container.kind};
  request.units = TRY(limit(container, GpuResource::kMemory, names, GpuRequest::kMostUnits));
  request.core_percent = TRY(limit(container, GpuResource::kCorePercent, names, 100 * kMostGpus));
  request.whole = TRY(limit(container, GpuResource::kWhole, names, kMostGpus));
  const std::uint32_t counted_gpus = TRY(limit(container, GpuResource::kCount, names, kMostGpus));
  if (request.whole > 0 && counted_gpus > 0) {
    return fail(ErrorCode::kInvalid,
                fmt::format("container {} requests both {} and {}, two names of one resource; keep {}",
                            in_quotes(container.name), names.whole(), names.count(), names.whole()));
  }
  request.whole += counted_gpus;
  if (request.core_percent > 0 && request.units == 0) {
    return fail(ErrorCode::kInvalid,
                fmt::format("container {} requests {} without {}; a compute share also needs memory",
                            in_quotes(container.name), names.core_percent(), names.memory()));
  }
  return request;
}

// Clamps a CPU or memory request so that sums do not overflow. Negative requests count as 0, as in
// Kubernetes.
std::int64_t sane(std::int64_t amount) {
  return std::clamp<std::int64_t>(amount, 0, std::numeric_limits<std::int64_t>::max() / 65536);
}

}  // namespace

Result<GpuRequest> GpuRequest::of_pod(const PodSpec& pod, const ResourceNames& names) {
  GpuRequest all;
  std::int32_t mains = 0;
  std::int32_t sidecars = 0;
  for (const ContainerSpec& container : pod.containers) {
    mains += container.kind == ContainerKind::kMain ? 1 : 0;
  }
  std::int32_t next_main = 0;
  for (const ContainerSpec& container : pod.containers) {
    const std::int32_t position = container.kind == ContainerKind::kMain      ? next_main++
                                  : container.kind == ContainerKind::kSidecar ? mains + sidecars++
                                                                              : -1;
    if (container.gpu_limits.empty()) {
      continue;
    }
    ContainerRequest request = TRY(request_of(container, names));
    if (request.units > 0 || request.whole > 0) {
      all.containers.push_back(std::move(request));
      all.original_positions.push_back(position);
    }
  }
  if (all.containers.size() > kMostContainers) {
    return fail(ErrorCode::kInvalid, fmt::format("{} containers request GPUs; at most {} are allowed",
                                                 all.containers.size(), kMostContainers));
  }
  const auto count_gpus = [&](auto member) {
    return static_cast<std::uint64_t>(
        counted(all.containers, [member](const auto& c) { return std::int64_t{c.*member}; }));
  };
  all.units = count_gpus(&ContainerRequest::units);
  all.core_percent = count_gpus(&ContainerRequest::core_percent);
  all.whole = count_gpus(&ContainerRequest::whole);
  return all;
}

NodeUse NodeUse::of_pod(const PodSpec& pod) {
  return {.cpu_milli = sane(counted(pod.containers, [](const auto& c) { return sane(c.cpu_milli); })) +
                       sane(pod.overhead_cpu_milli),
          .memory_bytes = sane(counted(pod.containers, [](const auto& c) { return sane(c.memory_bytes); })) +
                          sane(pod.overhead_memory_bytes)};
}

std::vector<std::vector<std::uint32_t>> GpuRequest::split_whole() const {
  std::vector<std::vector<std::uint32_t>> split(containers.size());
  const auto assign = [&split](std::size_t container, std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      split[container].push_back(first + i);
    }
  };
  std::uint32_t sidecars = 0;  // GPUs of the sidecars so far; they have the first GPUs
  for (std::size_t i = 0; i < containers.size(); ++i) {
    if (containers[i].kind != ContainerKind::kMain) {
      assign(i, sidecars, containers[i].whole);
      sidecars += containers[i].kind == ContainerKind::kSidecar ? containers[i].whole : 0;
    }
  }
  std::uint32_t next = sidecars;
  for (std::size_t i = 0; i < containers.size(); ++i) {
    if (containers[i].kind == ContainerKind::kMain) {
      assign(i, next, containers[i].whole);
      next += containers[i].whole;
    }
  }
  return split;
}

}  // namespace tessera::alloc
