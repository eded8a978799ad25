#include "alloc/names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace tessera::alloc {

namespace {

bool is_edge(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// Kubernetes rules for the part of a resource name before the slash ...
bool is_domain(std::string_view name) {
  return !name.empty() && name.size() <= 253 &&
         std::ranges::all_of(split(name, '.'), [](std::string_view label) {
           return !label.empty() && is_edge(label.front()) && is_edge(label.back()) &&
                  std::ranges::all_of(label, [](char c) { return is_edge(c) || c == '-'; });
         });
}

// ... and after it.
bool is_name(std::string_view name) {
  const auto is_alphanumeric = [](char c) { return is_edge(c) || (c >= 'A' && c <= 'Z'); };
  return !name.empty() && name.size() <= 63 && is_alphanumeric(name.front()) &&
         is_alphanumeric(name.back()) && std::ranges::all_of(name, [&](char c) {
           return is_alphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

}  // namespace

Status ResourceNames::check(const Config& config) {
  if (!is_domain(config.prefix)) {
    return fail(ErrorCode::kInvalid, fmt::format("resources.prefix: {} is not a domain like aliyun.com",
                                                 in_quotes(config.prefix)));
  }
  const std::string_view whole = config.whole;
  const std::size_t slash = whole.find('/');
  if (!whole.empty() && (slash == std::string_view::npos || !is_domain(whole.substr(0, slash)) ||
                         !is_name(whole.substr(slash + 1)))) {
    return fail(ErrorCode::kInvalid,
                fmt::format("resources.whole: {} is not a resource like nvidia.com/gpu", in_quotes(whole)));
  }
  const ResourceNames names(config);
  for (const std::string* other : {&names.memory_, &names.count_, &names.core_}) {
    if (names.whole_ == *other) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("resources.whole: {} already names another resource", in_quotes(*other)));
    }
  }
  return {};
}

ResourceNames::ResourceNames(const Config& config)
    : memory_(config.prefix + "/gpu-mem"),
      whole_(config.whole.empty() ? config.prefix + "/gpu" : config.whole),
      count_(config.prefix + "/gpu-count"),
      core_(config.prefix + "/gpu-core.percentage") {}

std::optional<GpuResource> ResourceNames::find(std::string_view name) const {
  if (name == memory_) {
    return GpuResource::kMemory;
  }
  if (name == whole_) {
    return GpuResource::kWhole;
  }
  if (name == count_) {
    return GpuResource::kCount;
  }
  if (name == core_) {
    return GpuResource::kCorePercent;
  }
  return std::nullopt;
}

const std::string& ResourceNames::name(GpuResource resource) const {
  switch (resource) {
    case GpuResource::kMemory:
      return memory_;
    case GpuResource::kWhole:
      return whole_;
    case GpuResource::kCount:
      return count_;
    case GpuResource::kCorePercent:
      break;
  }
  return core_;
}

namespace key {

bool is_pod_annotation(std::string_view name) {
  static constexpr std::array kRead = {
      kPolicy, kPlacement, kGpuModel,      kGpuUuids,   kGpuUuidsExclude, kAllocation,
      kMemIdx, kMemPod,    kMemAllocation, kWholeGroup, kWholeIdx,
  };
  return std::ranges::find(kRead, name) != kRead.end();
}

}  // namespace key

}  // namespace tessera::alloc
