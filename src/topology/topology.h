// topology/topology.h
//
// The GPUs of one node and the links between them. A Topology is a value that can be compared and
// hashed, so that a thousand equal nodes share one set of search tables (topology/set_tables.h).
//
//   Topology box(8);
//   box.set_link(0, 3, Link{.path = PciePath::kPhb, .nvlinks = 2, .generation = 2});
//   box.link(3, 0).nvlinks                 // 2: links have no direction
//
// Sources: `nvidia-smi topo -m` (topo_text.h), our JSON (topology_json.h), NVML (src/gpu) and
// machine descriptions (src/sim).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/gpu_mask.h"
#include "topology/index_list.h"
#include "topology/link.h"

namespace tessera::topology {

// The CPUs and NUMA nodes near one GPU.
struct GpuPlace {
  IndexList cpus;  // CPUs near it; empty if unknown
  IndexList numa;  // NUMA nodes near it, the nearest has the lowest number; empty if unknown
  // The NUMA node of the GPU's own memory (GH200, GB200), -1 elsewhere. Processes do not run there.
  std::int32_t memory_numa = -1;

  friend bool operator==(const GpuPlace&, const GpuPlace&) = default;
};

// A network card and its PCIe path to each GPU.
struct Nic {
  std::string name;             // column title in `topo -m`: "NIC0" or "mlx5_0"
  std::string device;           // "mlx5_0" if a legend names the device of NIC0; else empty
  std::vector<PciePath> paths;  // one per GPU

  friend bool operator==(const Nic&, const Nic&) = default;
};

class Topology {
 public:
  static constexpr std::size_t kMaxNics = 64;

  Topology() = default;
  // Creates GPUs without known links. Aborts if `gpus` is over kMaxGpus.
  explicit Topology(unsigned gpus);

  [[nodiscard]] unsigned size() const { return size_; }
  [[nodiscard]] GpuMask all() const { return first_gpus(size_); }

  // Requires a != b, both below size().
  [[nodiscard]] const Link& link(unsigned a, unsigned b) const { return links_[pair_index(a, b)]; }
  void set_link(unsigned a, unsigned b, Link link) { links_[pair_index(a, b)] = link; }

  [[nodiscard]] const GpuPlace& place(unsigned gpu) const { return places_[gpu]; }
  [[nodiscard]] GpuPlace& place(unsigned gpu) { return places_[gpu]; }
  // The NUMA node where a process that uses this GPU should run; -1 if unknown.
  [[nodiscard]] std::int32_t numa_node(unsigned gpu) const;

  // At most kMaxNics, each with size() paths.
  std::vector<Nic> nics;
  // Bit i is set if nics[i] is below the same PCIe switches as the GPU (PSB, PIX or PXB).
  [[nodiscard]] std::uint64_t near_nics(unsigned gpu) const;

  // Bandwidth of the PCIe paths. 0 means unknown: bandwidth.h then guesses the value from the
  // links.
  std::uint8_t pcie_generation = 0;  // 3 .. 6
  std::uint32_t socket_mbps = 0;     // bandwidth between CPU sockets, MB/s

  friend bool operator==(const Topology&, const Topology&) = default;
  // Equal topologies have the same hash, in every process.
  [[nodiscard]] std::uint64_t hash() const;

 private:
  [[nodiscard]] static std::size_t pair_index(unsigned a, unsigned b) {
    const std::size_t high = a > b ? a : b;
    return high * (high - 1) / 2 + (a > b ? b : a);
  }

  unsigned size_ = 0;
  std::vector<Link> links_;  // in the order (1,0) (2,0) (2,1) (3,0) ...
  std::vector<GpuPlace> places_;
};

struct TopologyHash {
  std::size_t operator()(const Topology& topology) const { return topology.hash(); }
};

}  // namespace tessera::topology
