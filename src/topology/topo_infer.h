// topology/topo_infer.h
//
// Completes the matrix of a `topo -m` text to a topology, by the rules of topo_text.h.
#pragma once

#include <optional>
#include <vector>

#include "topology/topo_text.h"

namespace tessera::topology {

// The matrix as it was read. Rows may be missing, the two sides of a pair may differ, and NVLinks
// have no generation yet.
struct TopoMatrix {
  TopoMatrix() = default;
  TopoMatrix(unsigned gpu_total, std::vector<Nic> nic_columns);

  [[nodiscard]] std::optional<Link>& link(unsigned row, unsigned column) {
    return links[row * gpus + column];
  }
  [[nodiscard]] const std::optional<Link>& link(unsigned row, unsigned column) const {
    return links[row * gpus + column];
  }

  unsigned gpus = 0;
  std::vector<bool> has_row;
  std::vector<std::optional<Link>> links;  // gpus x gpus
  std::vector<GpuPlace> places;
  std::vector<Nic> nics;
};

// Returns the completed topology, and notes about missing or contradictory input.
TopoText infer_topology(TopoMatrix matrix);

// Sets the NVLink generation and the NVSwitch flag of all NVLinks by the rules of topo_text.h. Also
// used for machine descriptions that contain a matrix.
void infer_nvlinks(Topology& topology);

}  // namespace tessera::topology
