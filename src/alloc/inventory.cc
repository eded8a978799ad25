#include "alloc/inventory.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "alloc/original_topology.h"
#include "alloc/record.h"
#include "base/strings.h"

namespace tessera::alloc {

namespace {

// No GPU has less than 1 GiB or more than 1 TiB of memory: such a node uses a different unit.
constexpr std::int64_t kSmallestGpuMib = 1024;
constexpr std::int64_t kLargestGpuMib = std::int64_t{1024} * 1024;

// The original plugin does not publish its unit, GiB or MiB. If the amount is implausible in the
// unit of the cluster, assume the other one, so that the node is fenced instead of misread.
Unit guess_unit(std::int64_t units_per_gpu, Unit cluster_unit) {
  const std::int64_t mib = std::min(units_per_gpu, kLargestGpuMib + 1) * cluster_unit.in_mib();
  const bool plausible = mib >= kSmallestGpuMib && mib <= kLargestGpuMib;
  if (units_per_gpu == 0 || plausible) {
    return cluster_unit;
  }
  return cluster_unit == Unit::mib() ? Unit::gib() : Unit::mib();
}

// Marks the GPUs that the ConfigMap of the original extender lists. Ignores GPUs that the node does
// not have.
void mark_unhealthy(Inventory& inventory, std::string_view list) {
  for (const std::uint32_t index : unhealthy_indices(list)) {
    if (const auto found = inventory.find_index(index)) {
      inventory.gpus[*found].unhealthy = "listed in the node's unhealthy-gpu ConfigMap";
    }
  }
}

Result<Inventory> from_capacity(const NodeSpec& node, Unit cluster_unit) {
  Inventory inventory;
  const std::int64_t count = node.original_gpus();
  const bool has_links = node.original.has_links();
  inventory.original = {.shares = !has_links || node.gpu_memory_units > 0, .whole = has_links};
  inventory.unit = cluster_unit;
  inventory.machine = node.original.type.empty() ? node.machine : node.original.type;
  if (count < 0 || node.gpu_memory_units < 0) {
    return fail(ErrorCode::kInvalid, "capacity of GPUs or GPU memory is negative");
  }
  if (count > static_cast<std::int64_t>(Inventory::kMaxGpus)) {
    return fail(ErrorCode::kInvalid,
                fmt::format("capacity is {} GPUs; at most {} are allowed", count, Inventory::kMaxGpus));
  }
  if (count == 0) {
    return inventory;
  }
  inventory.topology = TRY(original_topology(node.original, static_cast<unsigned>(count)));
  const std::int64_t units = node.gpu_memory_units / count;
  inventory.unit = guess_unit(units, cluster_unit);
  const std::int64_t mib = std::min(units, kLargestGpuMib) * inventory.unit.in_mib();
  for (std::int64_t i = 0; i < count; ++i) {
    Gpu gpu;
    gpu.index = static_cast<std::uint32_t>(i);
    gpu.uuid = index_name(gpu.index);
    gpu.memory_mib = static_cast<std::uint32_t>(std::min<std::int64_t>(mib, UINT32_MAX));
    inventory.gpus.push_back(std::move(gpu));
  }
  mark_unhealthy(inventory, node.unhealthy_gpus);
  return inventory;
}

}  // namespace

Result<Inventory> Inventory::of_node(const NodeSpec& node, Unit cluster_unit) {
  if (node.inventory.empty()) {
    return from_capacity(node, cluster_unit);
  }
  Inventory inventory = TRY(parse(node.inventory));
  if (inventory.machine.empty()) {
    inventory.machine = node.machine;
  }
  return inventory;
}

std::uint32_t Inventory::units(std::size_t i) const {
  const Gpu& gpu = gpus[i];
  const std::int64_t kept = subtract_reserved ? gpu.reserved_mib : 0;
  return unit.units_of_mib(std::int64_t{gpu.memory_mib} - kept);
}

std::optional<std::size_t> Inventory::find_uuid(std::string_view uuid) const {
  const auto found = std::ranges::find(gpus, uuid, &Gpu::uuid);
  return found == gpus.end() ? std::nullopt : std::optional<std::size_t>(found - gpus.begin());
}

std::optional<std::size_t> Inventory::find_index(std::uint32_t index) const {
  const auto found = std::ranges::find(gpus, index, &Gpu::index);
  return found == gpus.end() ? std::nullopt : std::optional<std::size_t>(found - gpus.begin());
}

std::string Inventory::unhealthy_list() const {
  std::string list;
  for (const Gpu& gpu : gpus) {
    if (!gpu.healthy()) {
      list += fmt::format("{}{}", list.empty() ? "" : ",", gpu.index);
    }
  }
  return list;
}

std::vector<GpuName> Inventory::gpu_names() const {
  std::vector<GpuName> names;
  names.reserve(gpus.size());
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    names.push_back({.uuid = gpus[i].uuid, .index = gpus[i].index, .units = units(i)});
  }
  return names;
}

std::vector<std::uint32_t> unhealthy_indices(std::string_view list) {
  std::vector<std::uint32_t> indices;
  for (const std::string_view part : split(list, ',')) {
    const auto index = parse_int(trim(part));
    if (index && *index >= 0 && *index <= std::numeric_limits<std::uint32_t>::max()) {
      indices.push_back(static_cast<std::uint32_t>(*index));
    }
  }
  return indices;
}

}  // namespace tessera::alloc
