// topology/topo_infer.h
//
// From what the lines of a `topo -m` text tell to a whole topology, by the rules of topo_text.h.
#pragma once

#include <optional>
#include <vector>

#include "topology/topo_text.h"

namespace tessera::topology {

// Cell by cell, as told: rows may be missing and the two sides of a pair may differ. NVLinks carry no
// generation yet.
struct ToldTopology {
  ToldTopology() = default;
  ToldTopology(unsigned gpu_total, std::vector<Nic> nic_columns);

  [[nodiscard]] std::optional<Link>& link(unsigned row, unsigned column) {
    return links[row * gpus + column];
  }
  [[nodiscard]] const std::optional<Link>& link(unsigned row, unsigned column) const {
    return links[row * gpus + column];
  }

  unsigned gpus = 0;
  std::vector<bool> row_told;
  std::vector<std::optional<Link>> links;  // gpus x gpus
  std::vector<GpuPlace> places;
  std::vector<Nic> nics;
};

TopoText infer_topology(ToldTopology told);

// Rule of topo_text.h for links whose generation and switches are not told: sets both where NVLinks exist.
// Also for machine descriptions that give a matrix.
void infer_nvlinks(Topology& topology);

}  // namespace tessera::topology
