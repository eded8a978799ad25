// tests/topology/machines.h
//
// Machines for tests, with the wiring of the real products.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "topology/bandwidth.h"
#include "topology/topology.h"

namespace tessera::topology {

inline Link nvlink(unsigned count, unsigned generation, PciePath path, bool nvswitch = false) {
  return Link{.path = path,
              .nvlinks = static_cast<std::uint8_t>(count),
              .generation = static_cast<std::uint8_t>(count > 0 ? generation : 0),
              .nvswitch = nvswitch};
}

// The PCIe tree of both DGX-1 models: two GPUs per switch, two switches per host bridge, two
// sockets.
inline PciePath dgx1_path(unsigned a, unsigned b, bool partner) {
  if (a / 4 != b / 4) {
    return PciePath::kSys;
  }
  return partner ? PciePath::kPix : PciePath::kPhb;
}

inline void two_sockets(Topology& box) {
  for (unsigned gpu = 0; gpu < box.size(); ++gpu) {
    box.place(gpu).numa = *IndexList::parse(gpu < box.size() / 2 ? "0" : "1");
  }
}

// A forged machine with 120 different bandwidths: up to 16 GPUs, every pair has another one. The
// fast links are between a small and a large half, so that no ring of all GPUs can use only them.
inline Topology forged(unsigned gpus) {
  std::map<Mbps, Link> links;
  for (const unsigned generation : {1U, 3U, 4U, 5U}) {
    for (unsigned count = 1; count <= kMaxNvlinks; ++count) {
      links.try_emplace(count * nvlink_mbps(generation), nvlink(count, generation, PciePath::kNode));
    }
  }
  std::vector<Link> slow;  // 57
  std::vector<Link> fast;  // 63
  for (const auto& [mbps, link] : links) {
    if (slow.size() < 57) {
      slow.push_back(link);
    } else if (fast.size() < 63) {
      fast.push_back(link);
    }
  }
  Topology box(gpus);
  const unsigned half = gpus * 7 / 16;
  std::size_t within = 0;
  std::size_t across = 0;
  for (unsigned a = 0; a < gpus; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      const bool is_fast = (a < half) != (b < half);
      box.set_link(a, b, is_fast ? fast[across++ * 37 % 63] : slow[within++ * 37 % 57]);
    }
  }
  two_sockets(box);
  return box;
}

// 8 V100 in a hybrid cube mesh.
inline Topology dgx1_volta() {
  static constexpr std::array<std::array<unsigned, 8>, 8> kLinks = {{{0, 1, 1, 2, 2, 0, 0, 0},
                                                                     {1, 0, 2, 1, 0, 2, 0, 0},
                                                                     {1, 2, 0, 2, 0, 0, 1, 0},
                                                                     {2, 1, 2, 0, 0, 0, 0, 1},
                                                                     {2, 0, 0, 0, 0, 1, 1, 2},
                                                                     {0, 2, 0, 0, 1, 0, 2, 1},
                                                                     {0, 0, 1, 0, 1, 2, 0, 2},
                                                                     {0, 0, 0, 1, 2, 1, 2, 0}}};
  Topology box(8);
  for (unsigned a = 0; a < 8; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      box.set_link(a, b, nvlink(kLinks[a][b], 2, dgx1_path(a, b, a / 2 == b / 2)));
    }
  }
  two_sockets(box);
  return box;
}

// 8 P100: two full meshes of four, and one link from each GPU to its counterpart.
inline Topology dgx1_pascal() {
  Topology box(8);
  for (unsigned a = 0; a < 8; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      const bool linked = a / 4 == b / 4 || a == b + 4;
      box.set_link(a, b, nvlink(linked ? 1 : 0, 1, dgx1_path(a, b, a % 2 == b % 2)));
    }
  }
  two_sockets(box);
  return box;
}

// Equal pairs via NVSwitch, on two sockets: DGX-2 (16, NV6), HGX A100 (8, NV12), HGX H100 (8,
// NV18).
inline Topology nvswitch_box(unsigned gpus, unsigned links, unsigned generation) {
  Topology box(gpus);
  for (unsigned a = 0; a < gpus; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      box.set_link(a, b, nvlink(links, generation, PciePath::kUnknown, true));
    }
  }
  two_sockets(box);
  return box;
}

// PCIe only: two GPUs per switch, two switches per upper switch, two sockets.
inline Topology pcie_tree(unsigned gpus) {
  Topology box(gpus);
  for (unsigned a = 0; a < gpus; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      PciePath path = PciePath::kSys;
      if (a / 2 == b / 2) {
        path = PciePath::kPix;
      } else if (a / 4 == b / 4) {
        path = PciePath::kPxb;
      } else if (a / (gpus / 2) == b / (gpus / 2)) {
        path = PciePath::kNode;
      }
      box.set_link(a, b, Link{.path = path});
    }
  }
  two_sockets(box);
  return box;
}

}  // namespace tessera::topology
