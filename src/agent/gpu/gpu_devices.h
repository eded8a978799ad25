// agent/gpu/gpu_devices.h
//
// Represents GPUs as devices: IDs and lists for kubelet, names for messages, JSON for /allocations.
//
// The ID "5d3c1b2a-12" is share 12 of the GPU whose UUID begins with GPU-5d3c1b2a. The ID
// "5d3c1b2a" is that GPU as a whole. The part taken from the UUID is the tag of the GPU.
//
// kubelet writes IDs into its checkpoint and into the status of pods. So an ID must mean the same
// GPU after a restart, and after the driver has renumbered its GPUs. IDs are short for two reasons.
// kubelet accepts a device list of at most 4 MiB. And every pod object contains the IDs that the
// pod holds.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/devices/allocation.h"
#include "agent/devices/cdi_spec.h"
#include "agent/devices/device.h"
#include "agent/devices/device_kind.h"
#include "alloc/inventory.h"

namespace tessera::agent {

class GpuIds {
 public:
  // Returns the tag of a GPU. It is usually the first digits of the UUID. It is a hash if the UUID
  // has an unusual form or another GPU already has these digits. The first call for a GPU assigns
  // its tag, which never changes afterwards.
  const std::string& tag(std::string_view uuid);

  [[nodiscard]] std::string share(std::string_view uuid, std::uint32_t number);
  [[nodiscard]] std::string whole(std::string_view uuid) { return tag(uuid); }

  // Returns the UUID of the GPU that an ID belongs to; nullopt if the ID is from another plugin or
  // its GPU is unknown.
  [[nodiscard]] std::optional<std::string> gpu_of(std::string_view id) const;

  // Returns whether an ID has our form. IDs of other device plugins do not: NVIDIA's IDs are whole
  // UUIDs, gpushare's are "GPU-<uuid>-_-12".
  static bool is_ours(std::string_view id);

 private:
  std::map<std::string, std::string, std::less<>> tags_;   // by UUID
  std::map<std::string, std::string, std::less<>> uuids_;  // by tag
};

// The device lists for kubelet: shares for gpu-mem, whole GPUs for gpu and gpu-count.
struct GpuLists {
  std::vector<Device> shares;
  std::vector<Device> whole;

  friend bool operator==(const GpuLists&, const GpuLists&) = default;
};

// Returns the device lists of an inventory. All shares of an unhealthy GPU are unhealthy.
GpuLists make_lists(const alloc::Inventory& inventory, GpuIds& ids);

const KindInfo& gpu_info();
// Returns the CDI kind tessera.io/gpu. Its file prefix "tessera-" does not follow the scheme of the
// other kinds (CdiKind::of), because it is older than that scheme.
CdiKind gpu_cdi_kind();

// Returns "GPU 3 (GPU-5d3c...)".
std::string name_of(const alloc::Gpu& gpu);
// Returns "GPU 3 (Tesla V100-SXM2-32GB, GPU-5d3c...)".
std::string describe(const alloc::Gpu& gpu);
std::vector<NodeDevice> node_devices(const alloc::Inventory& inventory);

// Returns {"uuid":"GPU-5d3c...","index":2,"mem":8}. The index is missing if the GPU is not in the
// inventory.
boost::json::object gpu_json(const alloc::Inventory& inventory, const DeviceShare& share);

}  // namespace tessera::agent
