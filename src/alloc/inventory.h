// alloc/inventory.h
//
// The GPUs of one node: what the agent publishes as the annotation tessera.io/inventory and everybody else
// reads. A value; the same machine always prints the same text.
//
//   {"v":1,"unit":"GiB","driver":"550.54.15","machine":"dgx1v",
//    "gpus":[{"uuid":"GPU-5d3c...","index":0,"minor":0,"model":"Tesla V100-SXM2-32GB","memory_mib":32768,
//             "reserved_mib":271,"pci":"00000000:06:00.0"},
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
  std::uint32_t index = 0;  // NVML's; what old tools and the container runtime call this GPU
  std::int32_t minor = -1;  // the N of /dev/nvidiaN; not the index on every machine; -1 when not known
  std::string model;
  std::uint32_t memory_mib = 0;
  std::uint32_t reserved_mib = 0;  // of that, kept by the driver
  std::string pci_bus_id{};
  std::string unhealthy{};  // why it must not be used; empty when it is well

  [[nodiscard]] bool healthy() const { return unhealthy.empty(); }
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

struct Inventory {
  static constexpr std::size_t kMaxGpus = topology::kMaxGpus;
  static constexpr std::size_t kMaxResources = 16;  // of other plugins
  static constexpr std::size_t kMaxResourceName =
      317;  // domain, slash and name, as long as Kubernetes takes them
  static constexpr std::size_t kMaxBytes = 128U << 10U;  // 64 GPUs with all their links

  Unit unit;
  std::string driver;
  std::string machine;             // kind of machine: the key of `static` set tables; may be empty
  bool mps = false;                // compute shares can be kept apart here
  bool subtract_reserved = false;  // shares are made only of what the driver leaves
  bool old_plugin = false;         // no agent here: made up from the node's capacity
  // Resources under which another device plugin gives out the same GPUs.
  std::vector<std::string> also_served_as{};
  std::vector<Gpu> gpus;        // by ascending index
  topology::Topology topology;  // between gpus[i] and gpus[j]

  // What an agent runs with is told by the node's annotation; a node without one has the old plugin, and
  // its GPUs are made up: capacity / count, all equal, named "index-0" and so on. A node without GPUs has an
  // empty inventory. `cluster_unit` is what a made-up inventory counts in.
  static Result<Inventory> of_node(const NodeSpec& node, Unit cluster_unit);

  // The annotation. Fails with the field that is wrong; GPUs may stand in any order.
  static Result<Inventory> parse(std::string_view json);
  [[nodiscard]] std::string json() const;

  // Shares of gpus[i]: whole units only.
  [[nodiscard]] std::uint32_t units(std::size_t i) const;

  // Where in gpus; nothing if it is not here.
  [[nodiscard]] std::optional<std::size_t> find_uuid(std::string_view uuid) const;
  [[nodiscard]] std::optional<std::size_t> find_index(std::uint32_t index) const;

  // For printing records.
  [[nodiscard]] std::vector<GpuName> gpu_names() const;

  // The indices of GPUs that are not well, "1,3": key `gpus` of ConfigMap unhealthy-gpu-<node>, for old
  // extenders.
  [[nodiscard]] std::string unhealthy_list() const;

  // The node annotations of the systems we replace, for tools that read them: GPU_TOPOLOGY and
  // GSOC_DEV_<i>_<j>, by index.
  [[nodiscard]] Annotations original_annotations() const;

  friend bool operator==(const Inventory&, const Inventory&) = default;
};

// The indices in the `gpus` key of a ConfigMap unhealthy-gpu-<node>: "1, 3". What is not an index stands for
// no GPU.
std::vector<std::uint32_t> unhealthy_indices(std::string_view list);

}  // namespace tessera::alloc
