// topology/topo_text.h
//
// `nvidia-smi topo -m`, read and written:
//
//           GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity  GPU NUMA ID
//   GPU0     X    NV12  PIX   0-31          0              N/A
//   GPU1    NV12   X    SYS   32-63         1              N/A
//
// Reads what real machines and real people produce: tabs or spaces, underlined headers (terminal escapes),
// CR LF, with or without NICs and their legend, without affinity columns or with blank ones, missing GPU
// rows, lines that begin with # or $.
//
// What the text cannot say is inferred, by these rules:
// - Missing rows follow from the columns of the others. A pair told by neither side takes the link of all the
//   others if these agree (as behind NVSwitches), and is unknown otherwise.
// - Where the two sides of a pair differ, the slower one counts.
// - NVSwitch: a GPU has at most 18 NVLinks (36 if a pair has more than 18). A GPU that shows more than that
// in
//   all shares them through switches; a pair of two such GPUs is linked via NVSwitch.
// - NVLink generation, by the links a GPU has: up to 6 -> 2 (Volta), 12 -> 3 (Ampere), 18 -> 4 (Hopper),
//   more -> 5; four single ones -> 1 (Pascal). A B200 (NV18) looks like an H100: our JSON tells them apart.
// - Without a NUMA column, GPUs with equal CPU lists share a node, numbered in the order they appear.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/topology.h"

namespace tessera::topology {

struct TopoText {
  Topology topology;
  std::vector<std::string> notes;  // what was missing or contradictory, for a person
};

// Fails with "line 5, column 12: ..." (both from 1, in bytes).
Result<TopoText> parse_topo_text(std::string_view text);

// In nvidia-smi's own layout, tabs included. Reading it back gives the same topology, apart from what the
// text cannot say (above): PCIe paths beside NVLinks, generations, PCIe generation.
std::string print_topo_text(const Topology& topology);

}  // namespace tessera::topology
