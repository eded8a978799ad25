#include "gpu/discovery.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "gpu/links.h"

namespace tessera::gpu {

namespace {

constexpr std::uint64_t kMib = 1U << 20U;

// One GPU and the facts that its inventory row and links are built from.
struct Found {
  alloc::Gpu gpu;
  GpuDetails details;
  LinkedGpu linked;
};

std::uint32_t mib(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / kMib, 1U << 30U));
}

// Reads everything about one GPU. Returns an error if the GPU does not answer.
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
  found.details.handle = *handle;
  found.linked = {.handle = *handle, .pci = *pci, .place = sysfs.pci(pci->sysfs_name())};
  if (const auto capability = nvml.compute_capability(*handle)) {
    found.details.compute = fmt::format("{}.{}", capability->first, capability->second);
    found.linked.nvlink_generation = nvlink_generation(capability->first);
  }
  found.details.unusable = unusable_reason(nvml, *handle);
  found.gpu.unhealthy = found.details.unusable;
  return found;
}

// Returns the earlier inventory row of the GPU at `index`, which does not answer now. Returns null
// if there is none or if that GPU answers at another index.
const alloc::Gpu* earlier_row(const alloc::Inventory& before, unsigned index,
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

// Copies the links and the place of GPUs that do not answer from the earlier inventory.
void fill_from_before(const alloc::Inventory& before, const std::vector<Found>& found,
                      topology::Topology& topology) {
  const auto old_position = [&](unsigned i) { return before.find_uuid(found[i].gpu.uuid); };
  for (unsigned i = 0; i < topology.size(); ++i) {
    const auto old_i = old_position(i);
    if (found[i].details.handle != nullptr || !old_i) {
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
  std::string reason;
};

// Adds the GPUs that do not answer: known ones keep their earlier row, the others become problems.
void add_lost(const std::vector<Lost>& lost, const alloc::Inventory& before, std::vector<Found>& found,
              std::vector<std::string>& problems) {
  for (const auto& [index, reason] : lost) {
    const alloc::Gpu* known = earlier_row(before, index, found);
    if (known == nullptr) {
      problems.push_back(
          fmt::format("GPU {} does not answer: {}; continuing without it (see nvidia-smi -i {} and dmesg)",
                      index, reason, index));
      continue;
    }
    Found row;
    row.gpu = *known;
    row.gpu.unhealthy = reason;
    found.push_back(std::move(row));
  }
}

// Removes GPUs with an invalid UUID or with the UUID of an earlier GPU. This was never seen on real
// hardware, but UUIDs decide which pod may use which GPU.
void drop_invalid_uuids(std::vector<Found>& found, std::vector<std::string>& problems) {
  std::vector<Found> unique;
  for (Found& entry : found) {
    const bool bad = entry.gpu.uuid.empty() || entry.gpu.uuid.find(',') != std::string::npos;
    const bool taken =
        std::ranges::any_of(unique, [&](const Found& other) { return other.gpu.uuid == entry.gpu.uuid; });
    if (bad || taken) {
      problems.push_back(fmt::format("GPU {} has UUID {}, which {}; ignoring this GPU", entry.gpu.index,
                                     in_quotes(entry.gpu.uuid), bad ? "is invalid" : "another GPU also has"));
      continue;
    }
    unique.push_back(std::move(entry));
  }
  found = std::move(unique);
}

}  // namespace

std::string unusable_reason(Nvml& nvml, abi::Device gpu) {
  if (const auto mig = nvml.mig_enabled(gpu); mig && *mig) {
    return "MIG is enabled: the memory belongs to the MIG instances; disable MIG (nvidia-smi -mig 0) to use "
           "this GPU";
  }
  if (const auto fabric = nvml.fabric(gpu); fabric && fabric->state != abi::kFabricNotSupported) {
    if (fabric->state != abi::kFabricCompleted) {
      return "NVLink fabric is not ready: CUDA cannot start; check that nvidia-fabricmanager is running";
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
  return found ? details[*found].handle : nullptr;
}

Result<Discovery> discover(Nvml& nvml, const Sysfs& sysfs, const DiscoveryOptions& options,
                           const alloc::Inventory& before) {
  const auto count = nvml.count();
  if (!count) {
    return fail(count.error().error().context("the NVIDIA driver cannot count its GPUs"));
  }
  Discovery result;
  std::vector<Found> found;
  std::vector<Lost> lost;
  const unsigned most = static_cast<unsigned>(alloc::Inventory::kMaxGpus);
  if (*count > most) {
    result.problems.push_back(
        fmt::format("the driver reports {} GPUs; using only the first {}", *count, most));
  }
  for (unsigned index = 0; index < std::min(*count, most); ++index) {
    auto gpu = read_gpu(nvml, sysfs, index);
    if (gpu) {
      found.push_back(std::move(*gpu));
    } else {
      lost.push_back({.index = index, .reason = gpu.error().reason()});
    }
  }
  drop_invalid_uuids(found, result.problems);
  add_lost(lost, before, found, result.problems);
  std::ranges::sort(found, {}, [](const Found& entry) { return entry.gpu.index; });

  std::vector<LinkedGpu> linked;
  for (const Found& entry : found) {
    linked.push_back(entry.linked);
    result.inventory.gpus.push_back(entry.gpu);
    result.details.push_back(entry.details);
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
