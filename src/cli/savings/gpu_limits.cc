#include "cli/savings/gpu_limits.h"

#include <algorithm>

namespace tessera::cli {

namespace {

constexpr std::string_view kMig = "nvidia.com/mig-";
constexpr std::string_view kSlicedGpu = "nvidia.com/gpu.shared";
// More GPUs than any node has. Keeps sums of hostile limits in range.
constexpr std::int64_t kMostGpus = 1 << 20;

bool contains(const std::vector<std::string>& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

}  // namespace

GpuLimits limits_of(const alloc::PodSpec& pod, const SavingsRules& rules) {
  const auto other = [&](auto matches) {
    return alloc::counted(pod.containers, [&](const alloc::ContainerSpec& container) {
      std::int64_t sum = 0;
      for (const auto& [name, amount] : container.other_limits) {
        sum += matches(name) ? std::clamp<std::int64_t>(amount.rounded_up(), 0, kMostGpus) : 0;
      }
      return sum;
    });
  };
  GpuLimits limits;
  limits.whole = other([&](const std::string& name) { return contains(rules.resources, name); });
  limits.vendor = other([&](const std::string& name) { return contains(rules.unshared_resources, name); });
  limits.mig = other([](const std::string& name) { return name.starts_with(kMig); });
  limits.sliced = other([](const std::string& name) { return name == kSlicedGpu; });
  const std::int64_t own = alloc::counted(pod.containers, [&](const alloc::ContainerSpec& container) {
    std::int64_t sum = 0;
    for (const auto& [resource, amount] : container.gpu_limits) {
      const std::int64_t count = std::clamp<std::int64_t>(amount.rounded_up(), 0, kMostGpus);
      const bool is_whole = resource == alloc::GpuResource::kWhole || resource == alloc::GpuResource::kCount;
      sum += is_whole ? count : 0;
      limits.shares = limits.shares || (!is_whole && count > 0);
    }
    return sum;
  });
  limits.tessera_whole = own > 0;
  limits.whole += own;
  return limits;
}

std::vector<std::string> resources_to_read(const SavingsRules& rules) {
  std::vector<std::string> all = rules.resources;
  all.insert(all.end(), rules.unshared_resources.begin(), rules.unshared_resources.end());
  all.push_back(std::string(kMig) + "*");
  all.emplace_back(kSlicedGpu);
  return all;
}

}  // namespace tessera::cli
