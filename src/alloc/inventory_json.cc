#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>

#include "alloc/inventory.h"
#include "alloc/names.h"
#include "alloc/record.h"
#include "base/json_reader.h"
#include "base/strings.h"
#include "topology/topology_json.h"

namespace tessera::alloc {

namespace {

constexpr std::int64_t kLargestMemoryMib = std::int64_t{1} << 31U;
constexpr std::int64_t kLargestIndex = 4095;

Result<std::string> short_text(const JsonReader& json, std::string_view key, std::size_t most) {
  std::string text = TRY(json.text_or(key, ""));
  if (text.size() > most) {
    return fail(
        json.wrong(fmt::format("has {} of {} bytes; at most {} are allowed", key, text.size(), most)));
  }
  return text;
}

Result<Gpu> parse_gpu(const JsonReader& json) {
  Gpu gpu;
  gpu.uuid = TRY(json.text("uuid"));
  if (gpu.uuid.empty() || gpu.uuid.size() > 128 || index_of_name(gpu.uuid) ||
      gpu.uuid.find(',') != std::string::npos) {
    return fail(json.wrong(fmt::format("has uuid {}, which is not a UUID", in_quotes(gpu.uuid))));
  }
  gpu.index = static_cast<std::uint32_t>(TRY(json.integer("index", 0, kLargestIndex)));
  gpu.minor = static_cast<std::int32_t>(TRY(json.integer_or("minor", 0, kLargestIndex, -1)));
  gpu.model = TRY(short_text(json, "model", 128));
  gpu.memory_mib = static_cast<std::uint32_t>(TRY(json.integer("memory_mib", 0, kLargestMemoryMib)));
  gpu.reserved_mib =
      static_cast<std::uint32_t>(TRY(json.integer_or("reserved_mib", 0, kLargestMemoryMib, 0)));
  if (gpu.reserved_mib > gpu.memory_mib) {
    return fail(json.wrong("has more reserved memory than memory"));
  }
  gpu.pci_bus_id = TRY(short_text(json, "pci", 64));
  if (json.has("unhealthy")) {
    gpu.unhealthy = TRY(short_text(json, "unhealthy", 512));
    if (gpu.unhealthy.empty()) {
      return fail(json.wrong("is unhealthy without a reason"));
    }
  }
  return gpu;
}

// The JSON topology has the order of the JSON list. Returns it in the order of the indices.
topology::Topology reordered(const topology::Topology& parsed, const std::vector<std::size_t>& order) {
  const auto size = static_cast<unsigned>(order.size());
  topology::Topology sorted(size);
  for (unsigned i = 0; i < size; ++i) {
    sorted.place(i) = parsed.place(static_cast<unsigned>(order[i]));
    for (unsigned j = i + 1; j < size; ++j) {
      sorted.set_link(i, j, parsed.link(static_cast<unsigned>(order[i]), static_cast<unsigned>(order[j])));
    }
  }
  sorted.nics = parsed.nics;
  for (std::size_t nic = 0; nic < parsed.nics.size(); ++nic) {
    for (unsigned i = 0; i < size; ++i) {
      sorted.nics[nic].paths[i] = parsed.nics[nic].paths[order[i]];
    }
  }
  sorted.pcie_generation = parsed.pcie_generation;
  sorted.socket_mbps = parsed.socket_mbps;
  return sorted;
}

Status sort_by_index(Inventory& inventory, const JsonReader& root) {
  std::vector<std::size_t> order(inventory.gpus.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::ranges::sort(order, {}, [&](std::size_t i) { return inventory.gpus[i].index; });
  std::vector<Gpu> sorted;
  for (const std::size_t i : order) {
    sorted.push_back(std::move(inventory.gpus[i]));
    const Gpu& gpu = sorted.back();
    for (std::size_t before = 0; before + 1 < sorted.size(); ++before) {
      if (sorted[before].index == gpu.index || sorted[before].uuid == gpu.uuid) {
        return fail(root.wrong(fmt::format("has GPU {} (index {}) twice", in_quotes(gpu.uuid), gpu.index)));
      }
    }
  }
  inventory.gpus = std::move(sorted);
  if (!std::ranges::is_sorted(order)) {
    inventory.topology = reordered(inventory.topology, order);
  }
  return {};
}

}  // namespace

Result<Inventory> Inventory::parse(std::string_view text) {
  const auto document = TRY(with_context(parse_json(text, kMaxBytes), std::string(key::kInventory)));
  const JsonReader root(document, std::string(key::kInventory));
  TRY(root.integer("v", 1, 1));
  Inventory inventory;
  const std::string unit = TRY(root.text("unit"));
  inventory.unit = TRY(with_context(Unit::parse(unit), std::string(key::kInventory)));
  inventory.driver = TRY(short_text(root, "driver", 64));
  inventory.machine = TRY(short_text(root, "machine", 128));
  inventory.mps = TRY(root.boolean_or("mps", false));
  inventory.subtract_reserved = TRY(root.boolean_or("subtract_reserved", false));
  if (root.has("also_served_as")) {
    for (const JsonReader& resource : TRY(root.array("also_served_as", kMaxResources))) {
      std::string name = TRY(resource.as_text());
      if (name.size() > kMaxResourceName) {
        return fail(resource.wrong("is longer than a resource name can be"));
      }
      inventory.also_served_as.push_back(std::move(name));
    }
  }
  for (const JsonReader& gpu : TRY(root.array("gpus", kMaxGpus))) {
    inventory.gpus.push_back(TRY(parse_gpu(gpu)));
  }
  inventory.topology = topology::Topology(static_cast<unsigned>(inventory.gpus.size()));
  if (root.has("topology")) {
    const JsonReader topology = TRY(root.object("topology"));
    inventory.topology = TRY(topology::topology_from_json(topology));
    if (inventory.topology.size() != inventory.gpus.size()) {
      return fail(root.wrong(
          fmt::format("has {} GPUs but a topology of {}", inventory.gpus.size(), inventory.topology.size())));
    }
  }
  TRY(sort_by_index(inventory, root));
  return inventory;
}

std::string Inventory::json() const {
  boost::json::array list;
  for (const Gpu& gpu : gpus) {
    boost::json::object one{{"uuid", gpu.uuid}, {"index", gpu.index}};
    if (gpu.minor >= 0) {
      one["minor"] = gpu.minor;
    }
    one["model"] = gpu.model;
    one["memory_mib"] = gpu.memory_mib;
    one["reserved_mib"] = gpu.reserved_mib;
    if (!gpu.pci_bus_id.empty()) {
      one["pci"] = gpu.pci_bus_id;
    }
    if (!gpu.healthy()) {
      one["unhealthy"] = gpu.unhealthy;
    }
    list.push_back(std::move(one));
  }
  boost::json::object all{{"v", 1}, {"unit", unit.text()}};
  if (!driver.empty()) {
    all["driver"] = driver;
  }
  if (!machine.empty()) {
    all["machine"] = machine;
  }
  if (mps) {
    all["mps"] = true;
  }
  if (subtract_reserved) {
    all["subtract_reserved"] = true;
  }
  if (!also_served_as.empty()) {
    all["also_served_as"] = boost::json::array(also_served_as.begin(), also_served_as.end());
  }
  all["gpus"] = std::move(list);
  all["topology"] = topology::to_json(topology);
  return boost::json::serialize(all);
}

}  // namespace tessera::alloc
