// agent/gpu/gpu_devices.h
//
// GPUs as devices: their IDs and lists for kubelet, their names for people, and their JSON for
// /allocations.
//
// kubelet's ID "5d3c1b2a-12" is share 12 of the GPU whose UUID begins with GPU-5d3c1b2a; "5d3c1b2a"
// is that GPU as a whole. kubelet writes IDs into its checkpoint and into the status of pods, so an
// ID must mean the same GPU after a restart and after the driver has renumbered its GPUs. IDs are
// short because every ID is in every list (kubelet takes 4 MiB) and in the object of every pod that
// holds it.
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
  // Returns the tag of a GPU, which it keeps from now on. The tag follows from the UUID alone,
  // unless another GPU has the same one already: then from a hash of the UUID and a number.
  const std::string& tag(std::string_view uuid);

  [[nodiscard]] std::string share(std::string_view uuid, std::uint32_t number);
  [[nodiscard]] std::string whole(std::string_view uuid) { return tag(uuid); }

  // The UUID of the GPU of an ID; nothing for an ID of another plugin, or of a GPU never seen here.
  [[nodiscard]] std::optional<std::string> gpu_of(std::string_view id) const;

  // Whether an ID has our form. IDs of other device plugins do not: NVIDIA's are whole UUIDs, those
  // of the original are "GPU-<uuid>-_-12".
  static bool is_ours(std::string_view id);

 private:
  std::map<std::string, std::string, std::less<>> tags_;   // by UUID
  std::map<std::string, std::string, std::less<>> uuids_;  // by tag
};

// The GPUs of this node as kubelet counts them: shares for gpu-mem, whole ones for gpu and
// gpu-count.
struct GpuLists {
  std::vector<Device> shares;
  std::vector<Device> whole;

  friend bool operator==(const GpuLists&, const GpuLists&) = default;
};

// All shares of an unhealthy GPU are unhealthy.
GpuLists make_lists(const alloc::Inventory& inventory, GpuIds& ids);

const KindInfo& gpu_info();
// tessera.io/gpu. The file names are older than the other kinds and do not follow their scheme.
CdiKind gpu_cdi_kind();

// "GPU 3 (GPU-5d3c...)".
std::string name_of(const alloc::Gpu& gpu);
// "GPU 3 (Tesla V100-SXM2-32GB, GPU-5d3c...)".
std::string describe(const alloc::Gpu& gpu);
std::vector<NodeDevice> node_devices(const alloc::Inventory& inventory);

// {"uuid":"GPU-5d3c...","index":2,"mem":8}. A GPU that is gone has no index.
boost::json::object gpu_json(const alloc::Inventory& inventory, const DeviceShare& share);

}  // namespace tessera::agent
