// alloc/inventory.h
//
// The GPUs of one node and the links between them. The agent publishes the inventory as the Node
// annotation tessera.io/inventory. The extender and the command line read it. Equal inventories
// print equal text.
//
//   {"v":1,"unit":"GiB","driver":"550.54.15","machine":"dgx1v",
//    "gpus":[{"uuid":"GPU-5d3c...","index":0,"minor":0,"model":"Tesla V100-SXM2-32GB",
//             "memory_mib":32768,"reserved_mib":271,"pci":"00000000:06:00.0"},
//            {"uuid":"GPU-71aa...","index":1,...,"unhealthy":"XID 79"}],
//    "topology":{...}}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/gpu_name.h"
#include "alloc/node.h"
#include "alloc/pod.h"
#include "alloc/units.h"
#include "base/result.h"
#include "topology/topology.h"

namespace tessera::alloc {

struct Gpu {
  std::string uuid;
  std::uint32_t index = 0;  // NVML index; used by the original systems and the container runtime
  std::int32_t minor = -1;  // N of /dev/nvidiaN, which may differ from the index; -1 if unknown
  std::string model;
  std::uint32_t memory_mib = 0;
  std::uint32_t reserved_mib = 0;  // part of memory_mib that the driver keeps
  std::string pci_bus_id{};
  std::string unhealthy{};  // why it must not be used; empty if it is healthy

  [[nodiscard]] bool healthy() const { return unhealthy.empty(); }
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

struct Inventory {
  static constexpr std::size_t kMaxGpus = topology::kMaxGpus;
  static constexpr std::size_t kMaxResources = 16;  // limit for also_served_as
  static constexpr std::size_t kMaxResourceName =
      317;  // Kubernetes: 253 for the domain, '/', 63 for the name
  // Limit for the JSON. Enough for 64 GPUs with all their links.
  static constexpr std::size_t kMaxBytes = 128U << 10U;

  Unit unit;
  std::string driver;
  std::string machine;             // machine type, a key of the tables of `static`; may be empty
  bool mps = false;                // the node can enforce compute shares
  bool subtract_reserved = false;  // share only the memory that the driver does not reserve
  OriginalPlugins original;        // any(): the node has no agent, so this is estimated
  // Resources under which another device plugin allocates the same GPUs.
  std::vector<std::string> also_served_as{};
  std::vector<Gpu> gpus;        // by ascending index
  topology::Topology topology;  // link(i, j) is between gpus[i] and gpus[j]

  // Reads the annotation of a node. Fails if the annotation is invalid. A node with GPUs but
  // without the annotation runs an original plugin. Its inventory is estimated from its capacity
  // in `cluster_unit`: GPUs of equal size, named "index-0", "index-1" and so on. Their links are
  // known if the plugin publishes them (original_topology.h). A node without GPUs has an empty
  // inventory.
  static Result<Inventory> of_node(const NodeSpec& node, Unit cluster_unit);

  // Parses the annotation; GPUs may be in any order. The error names the invalid field.
  static Result<Inventory> parse(std::string_view json);
  [[nodiscard]] std::string json() const;

  // Returns the units of gpus[i] that can be shared, rounded down.
  [[nodiscard]] std::uint32_t units(std::size_t i) const;

  // Return the position of the GPU in `gpus`, or nullopt if the node does not have the GPU.
  [[nodiscard]] std::optional<std::size_t> find_uuid(std::string_view uuid) const;
  [[nodiscard]] std::optional<std::size_t> find_index(std::uint32_t index) const;

  // Returns the names of all GPUs, for the annotations of the original systems.
  [[nodiscard]] std::vector<GpuName> gpu_names() const;

  // Returns the indices of the unhealthy GPUs, "1,3". This is the value of key `gpus` in the
  // ConfigMap unhealthy-gpu-<node>, which the original extender reads.
  [[nodiscard]] std::string unhealthy_list() const;

  // Returns the node annotations of the original systems, for tools that read them: GPU_TOPOLOGY
  // and GSOC_DEV_<i>_<j>, where i and j are indices.
  [[nodiscard]] Annotations original_annotations() const;

  friend bool operator==(const Inventory&, const Inventory&) = default;
};

// Parses the value of key `gpus` of a ConfigMap unhealthy-gpu-<node>, "1, 3", and returns the
// indices. Ignores entries that are not indices.
std::vector<std::uint32_t> unhealthy_indices(std::string_view list);

}  // namespace tessera::alloc
