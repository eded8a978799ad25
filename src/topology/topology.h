// topology/topology.h
//
// The GPUs of one node and what connects them: a value, compared and hashed as one, so that a thousand nodes
// of one kind share one set of search tables (topology/set_tables.h).
//
//   Topology box(8);
//   box.set_link(0, 3, Link{.path = PciePath::kPhb, .nvlinks = 2, .generation = 2});
//   box.link(3, 0).nvlinks                 // 2: links have no direction
//
// It comes from `nvidia-smi topo -m` (topo_text.h), from our JSON (topology_json.h), from NVML (src/gpu) or
// from a machine description (src/sim).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/gpu_mask.h"
#include "topology/index_list.h"
#include "topology/link.h"

namespace tessera::topology {

// Where one GPU sits.
struct GpuPlace {
  IndexList cpus;  // CPUs near it; empty when not told
  IndexList numa;  // NUMA nodes near it, the nearest first in number; empty when not told
  // The NUMA node that the GPU's own memory is (GH200, GB200), -1 elsewhere. Not a place for its processes.
  std::int32_t memory_numa = -1;

  friend bool operator==(const GpuPlace&, const GpuPlace&) = default;
};

// A network card, and how near each GPU is to it.
struct Nic {
  std::string name;             // "NIC0" or "mlx5_0": what the columns of `topo -m` are called
  std::string device;           // "mlx5_0" where a legend says what NIC0 is; else empty
  std::vector<PciePath> paths;  // one for each GPU

  friend bool operator==(const Nic&, const Nic&) = default;
};

class Topology {
 public:
  static constexpr std::size_t kMaxNics = 64;

  Topology() = default;
  // GPUs without any known link. `gpus` over kMaxGpus is a broken promise of the caller.
  explicit Topology(unsigned gpus);

  [[nodiscard]] unsigned size() const { return size_; }
  [[nodiscard]] GpuMask all() const { return first_gpus(size_); }

  // a != b, both below size().
  [[nodiscard]] const Link& link(unsigned a, unsigned b) const { return links_[pair_index(a, b)]; }
  void set_link(unsigned a, unsigned b, Link link) { links_[pair_index(a, b)] = link; }

  [[nodiscard]] const GpuPlace& place(unsigned gpu) const { return places_[gpu]; }
  [[nodiscard]] GpuPlace& place(unsigned gpu) { return places_[gpu]; }
  // The NUMA node a process on this GPU should run on, -1 when not told.
  [[nodiscard]] std::int32_t numa_node(unsigned gpu) const;

  // At most kMaxNics, each with size() paths.
  std::vector<Nic> nics;
  // Bit i: nics[i] hangs below the same PCIe switches (PSB, PIX or PXB).
  [[nodiscard]] std::uint64_t near_nics(unsigned gpu) const;

  // What the path classes are worth; 0 when not told, and then guessed from the links (bandwidth.h).
  std::uint8_t pcie_generation = 0;  // 3 .. 6
  std::uint32_t socket_mbps = 0;     // what gets from one CPU socket to the other, MB/s

  friend bool operator==(const Topology&, const Topology&) = default;
  // The same for equal topologies, in every process.
  [[nodiscard]] std::uint64_t hash() const;

 private:
  [[nodiscard]] static std::size_t pair_index(unsigned a, unsigned b) {
    const std::size_t high = a > b ? a : b;
    return high * (high - 1) / 2 + (a > b ? b : a);
  }

  unsigned size_ = 0;
  std::vector<Link> links_;  // of (1,0) (2,0) (2,1) (3,0) ...
  std::vector<GpuPlace> places_;
};

struct TopologyHash {
  std::size_t operator()(const Topology& topology) const { return topology.hash(); }
};

}  // namespace tessera::topology
