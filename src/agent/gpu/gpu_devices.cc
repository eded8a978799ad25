#include "agent/gpu/gpu_devices.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>

#include "alloc/names.h"

namespace tessera::agent {

namespace {

constexpr std::size_t kTagLength = 8;

bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// FNV-1a. Unlike std::hash, it has the same result in every process.
std::uint32_t hash_of(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return hash;
}

// Returns the first digits of the UUID, so that people recognize the GPU. Returns a hash if the
// UUID does not have the usual form.
std::string preferred_tag(std::string_view uuid) {
  const std::size_t dash = uuid.find('-');
  const std::string_view digits =
      dash == std::string_view::npos ? std::string_view() : uuid.substr(dash + 1, kTagLength);
  return digits.size() == kTagLength && is_hex(digits) ? std::string(digits)
                                                       : fmt::format("{:08x}", hash_of(uuid));
}

std::vector<std::int64_t> numa_nodes(const alloc::Inventory& inventory, std::size_t gpu) {
  std::vector<std::int64_t> nodes;
  if (gpu < inventory.topology.size()) {
    for (const topology::IndexRange& range :
         inventory.topology.place(static_cast<unsigned>(gpu)).numa.ranges()) {
      for (std::uint32_t node = range.first; node <= range.last; ++node) {
        nodes.push_back(node);
      }
    }
  }
  return nodes;
}

}  // namespace

const std::string& GpuIds::tag(std::string_view uuid) {
  if (const auto known = tags_.find(uuid); known != tags_.end()) {
    return known->second;
  }
  std::string tag = preferred_tag(uuid);
  for (int attempt = 0; uuids_.contains(tag); ++attempt) {
    tag = fmt::format("{:08x}", hash_of(fmt::format("{}#{}", uuid, attempt)));
  }
  uuids_.emplace(tag, uuid);
  return tags_.emplace(uuid, std::move(tag)).first->second;
}

std::string GpuIds::share(std::string_view uuid, std::uint32_t number) {
  return fmt::format("{}-{}", tag(uuid), number);
}

std::optional<std::string> GpuIds::gpu_of(std::string_view id) const {
  if (!is_ours(id)) {
    return std::nullopt;
  }
  const auto found = uuids_.find(id.substr(0, kTagLength));
  return found == uuids_.end() ? std::nullopt : std::optional<std::string>(found->second);
}

bool GpuIds::is_ours(std::string_view id) {
  if (id.size() < kTagLength || !is_hex(id.substr(0, kTagLength))) {
    return false;
  }
  const std::string_view rest = id.substr(kTagLength);
  return rest.empty() || (rest.size() > 1 && rest.front() == '-' &&
                          std::ranges::all_of(rest.substr(1), [](char c) { return c >= '0' && c <= '9'; }));
}

GpuLists make_lists(const alloc::Inventory& inventory, GpuIds& ids) {
  GpuLists lists;
  for (std::size_t i = 0; i < inventory.gpus.size(); ++i) {
    const alloc::Gpu& gpu = inventory.gpus[i];
    const std::vector<std::int64_t> numa = numa_nodes(inventory, i);
    lists.whole.push_back({.id = ids.whole(gpu.uuid), .healthy = gpu.healthy(), .numa = numa});
    for (std::uint32_t share = 0; share < inventory.units(i); ++share) {
      lists.shares.push_back({.id = ids.share(gpu.uuid, share), .healthy = gpu.healthy(), .numa = numa});
    }
  }
  return lists;
}

const KindInfo& gpu_info() {
  static const KindInfo info{.one = "GPU",
                             .many = "GPUs",
                             .unhealthy = "GpuUnhealthy",
                             .healthy = "GpuHealthy",
                             .gone = "GpuGone",
                             .appeared = "GpuAppeared",
                             .mismatch = "GpuAllocationMismatch",
                             .setup_failed = "GpuSetupFailed",
                             .condition = "GPUsHealthy",
                             .all_healthy = "AllGPUsHealthy",
                             .some_unhealthy = "GPUUnhealthy",
                             .no_devices = "NoGPUs",
                             .visible_variable = std::string(alloc::key::kVisibleDevices),
                             .visible_none = "void",
                             .device_prefix = "GPU-"};
  return info;
}

CdiKind gpu_cdi_kind() {
  return {"tessera.io/gpu", "tessera-"};
}

std::string name_of(const alloc::Gpu& gpu) {
  return fmt::format("GPU {} ({})", gpu.index, gpu.uuid);
}

std::string describe(const alloc::Gpu& gpu) {
  return gpu.model.empty() ? name_of(gpu) : fmt::format("GPU {} ({}, {})", gpu.index, gpu.model, gpu.uuid);
}

std::vector<NodeDevice> node_devices(const alloc::Inventory& inventory) {
  std::vector<NodeDevice> devices;
  for (const alloc::Gpu& gpu : inventory.gpus) {
    devices.push_back(
        {.id = gpu.uuid, .name = name_of(gpu), .description = describe(gpu), .unhealthy = gpu.unhealthy});
  }
  return devices;
}

boost::json::object gpu_json(const alloc::Inventory& inventory, const DeviceShare& share) {
  boost::json::object one{{"uuid", share.device}};
  if (const auto found = inventory.find_uuid(share.device)) {
    one["index"] = inventory.gpus[*found].index;
  }
  if (share.whole) {
    one["whole"] = true;
  } else {
    one["mem"] = share.units;
  }
  if (share.core_percent > 0) {
    one["core_percent"] = share.core_percent;
  }
  return one;
}

}  // namespace tessera::agent
