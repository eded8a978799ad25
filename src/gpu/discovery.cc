#include "gpu/discovery.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "gpu/links.h"

namespace tessera::gpu {

namespace {

constexpr std::uint64_t kMib = 1U << 20U;

// One GPU on its way into the inventory.
struct Found {
  alloc::Gpu gpu;
  GpuFacts facts;
  LinkedGpu linked;
};

std::uint32_t mib(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / kMib, 1U << 30U));
}

// Everything about a GPU that answers. An error means: it does not.
NvmlResult<Found> read_gpu(Nvml& nvml, const Sysfs& sysfs, unsigned index) {
  Found found;
  found.gpu.index = index;
  const auto handle = nvml.device(index);
  if (!handle) {
    return tl::unexpected(handle.error());
  }
  const auto uuid = nvml.uuid(*handle);
  const auto pci = nvml.pci(*handle);
  const auto memory = nvml.memory(*handle);
  if (!uuid || !pci || !memory) {
    return tl::unexpected(!uuid ? uuid.error() : !pci ? pci.error() : memory.error());
  }
  found.gpu.uuid = *uuid;
  found.gpu.pci_bus_id = pci->nvml_text();
  found.gpu.memory_mib = mib(memory->total);
  found.gpu.reserved_mib = std::min(mib(memory->reserved), found.gpu.memory_mib);
  found.gpu.model = nvml.name(*handle).value_or("");
  if (const auto minor = nvml.minor(*handle); minor && *minor <= 4095) {
    found.gpu.minor = static_cast<std::int32_t>(*minor);
  }
  found.facts.handle = *handle;
  found.linked = {.handle = *handle, .pci = *pci, .place = sysfs.pci(pci->sysfs_name())};
  if (const auto capability = nvml.compute_capability(*handle)) {
    found.facts.compute = fmt::format("{}.{}", capability->first, capability->second);
    found.linked.nvlink_generation = nvlink_generation(capability->first);
  }
  found.facts.unfit = unfit_reason(nvml, *handle);
  found.gpu.unhealthy = found.facts.unfit;
  return found;
}

// The row of `before` for a GPU that does not answer at `index`: the one that stood there, unless it answers
// somewhere else.
const alloc::Gpu* remembered(const alloc::Inventory& before, unsigned index,
                             const std::vector<Found>& found) {
  const auto position = before.find_index(index);
  if (!position) {
    return nullptr;
  }
  const alloc::Gpu& gpu = before.gpus[*position];
  const bool elsewhere =
      std::ranges::any_of(found, [&](const Found& other) { return other.gpu.uuid == gpu.uuid; });
  return elsewhere ? nullptr : &gpu;
}

// What a GPU that does not answer was connected to before.
void fill_from_before(const alloc::Inventory& before, const std::vector<Found>& found,
                      topology::Topology& topology) {
  const auto old_position = [&](unsigned i) { return before.find_uuid(found[i].gpu.uuid); };
  for (unsigned i = 0; i < topology.size(); ++i) {
    const auto old_i = old_position(i);
    if (found[i].facts.handle != nullptr || !old_i) {
      continue;
    }
    topology.place(i) = before.topology.place(static_cast<unsigned>(*old_i));
    for (unsigned j = 0; j < topology.size(); ++j) {
      const auto old_j = old_position(j);
      if (j != i && old_j) {
        const auto& link = before.topology.link(static_cast<unsigned>(*old_i), static_cast<unsigned>(*old_j));
        topology.set_link(i, j, link);
      }
    }
    for (topology::Nic& nic : topology.nics) {
      const auto old_nic = std::ranges::find(before.topology.nics, nic.name, &topology::Nic::name);
      if (old_nic != before.topology.nics.end()) {
        nic.paths[i] = old_nic->paths[*old_i];
      }
    }
  }
}

struct Lost {
  unsigned index;
  std::string why;
};

// GPUs that do not answer: known ones keep their row, the others become problems.
void add_lost(const std::vector<Lost>& lost, const alloc::Inventory& before, std::vector<Found>& found,
              std::vector<std::string>& problems) {
  for (const auto& [index, why] : lost) {
    const alloc::Gpu* known = remembered(before, index, found);
    if (known == nullptr) {
      problems.push_back(
          fmt::format("GPU {} does not answer: {}; the others are served without it (nvidia-smi -i {} and "
                      "dmesg tell more)",
                      index, why, index));
      continue;
    }
    Found row;
    row.gpu = *known;
    row.gpu.unhealthy = why;
    found.push_back(std::move(row));
  }
}

// Two GPUs under one UUID cannot be told apart; the first stays. Never seen on hardware, but the answer
// decides who may use a GPU, so it is checked.
void drop_doubles(std::vector<Found>& found, std::vector<std::string>& problems) {
  std::vector<Found> unique;
  for (Found& entry : found) {
    const bool bad = entry.gpu.uuid.empty() || entry.gpu.uuid.find(',') != std::string::npos;
    const bool taken =
        std::ranges::any_of(unique, [&](const Found& other) { return other.gpu.uuid == entry.gpu.uuid; });
    if (bad || taken) {
      problems.push_back(fmt::format("GPU {} has UUID {}, which {}; it is not served", entry.gpu.index,
                                     in_quotes(entry.gpu.uuid), bad ? "is none" : "another GPU has too"));
      continue;
    }
    unique.push_back(std::move(entry));
  }
  found = std::move(unique);
}

}  // namespace

std::string unfit_reason(Nvml& nvml, abi::Device gpu) {
  if (const auto mig = nvml.mig_enabled(gpu); mig && *mig) {
    return "MIG is enabled: its memory belongs to its instances; disable it (nvidia-smi -mig 0) to use this "
           "GPU";
  }
  if (const auto fabric = nvml.fabric(gpu); fabric && fabric->state != abi::kFabricNotSupported) {
    if (fabric->state != abi::kFabricCompleted) {
      return "NVLink fabric is not ready: CUDA cannot start; see that nvidia-fabricmanager runs";
    }
    if (fabric->status != abi::kSuccess) {
      return fmt::format(
          "NVLink fabric registration failed with NVML error {}; see the log of nvidia-fabricmanager",
          fabric->status);
    }
  }
  return "";
}

abi::Device Discovery::handle(std::string_view uuid) const {
  const auto found = inventory.find_uuid(uuid);
  return found ? facts[*found].handle : nullptr;
}

Result<Discovery> discover(Nvml& nvml, const Sysfs& sysfs, const DiscoveryOptions& options,
                           const alloc::Inventory& before) {
  const auto count = nvml.count();
  if (!count) {
    return fail(count.error().error().context("NVIDIA driver cannot count its GPUs"));
  }
  Discovery result;
  std::vector<Found> found;
  std::vector<Lost> lost;
  const unsigned most = static_cast<unsigned>(alloc::Inventory::kMaxGpus);
  if (*count > most) {
    result.problems.push_back(
        fmt::format("the driver counts {} GPUs; only the first {} are served", *count, most));
  }
  for (unsigned index = 0; index < std::min(*count, most); ++index) {
    auto gpu = read_gpu(nvml, sysfs, index);
    if (gpu) {
      found.push_back(std::move(*gpu));
    } else {
      lost.push_back({.index = index, .why = gpu.error().text()});
    }
  }
  drop_doubles(found, result.problems);
  add_lost(lost, before, found, result.problems);
  std::ranges::sort(found, {}, [](const Found& entry) { return entry.gpu.index; });

  std::vector<LinkedGpu> linked;
  for (const Found& entry : found) {
    linked.push_back(entry.linked);
    result.inventory.gpus.push_back(entry.gpu);
    result.facts.push_back(entry.facts);
  }
  alloc::Inventory& inventory = result.inventory;
  inventory.unit = options.unit;
  inventory.subtract_reserved = options.subtract_reserved;
  inventory.driver = nvml.driver_version().value_or("");
  inventory.machine = options.machine.empty() ? sysfs.product_name() : options.machine;
  inventory.topology = read_topology(nvml, sysfs, linked);
  fill_from_before(before, found, inventory.topology);
  result.cuda = nvml.cuda_version().value_or("");
  return result;
}

}  // namespace tessera::gpu
