// topology/topo_text.h
//
// Reads and writes the output of `nvidia-smi topo -m`:
//
//           GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity  GPU NUMA ID
//   GPU0     X    NV12  PIX   0-31          0              N/A
//   GPU1    NV12   X    SYS   32-63         1              N/A
//
// Accepts the variants found in practice: tabs or spaces, underlined headers (terminal escapes),
// CR LF, with or without NICs and their legend, missing or blank affinity columns, missing GPU
// rows, lines that start with # or $.
//
// Information that the text does not contain is inferred by these rules:
// - Missing rows are filled from the columns of the other rows. A pair with no known side gets the
//   link of the other pairs if all of those are equal, as with NVSwitches. Otherwise its link is
//   unknown.
// - If the two sides of a pair differ, the slower one is used.
// - NVSwitch: a GPU is assumed to have at most 18 NVLinks, or 36 if any pair has more than 18. If
//   the links of a GPU to all its peers add up to more than that, they must go through switches. A
//   pair of two such GPUs is linked via NVSwitch.
// - NVLink generation, by the number of NVLinks of the GPU that has the most. With NVSwitches, the
//   number that the text shows for one pair is used:
//     4, with at most one NVLink per pair -> generation 1 (Pascal)
//     any other number up to 6 -> generation 2 (Volta)
//     7 to 12 -> generation 3 (Ampere)
//     13 to 18 -> generation 4 (Hopper)
//     more -> generation 5 (Blackwell)
//   A B200 also has 18 NVLinks, so it is taken for an H100. Our JSON distinguishes them.
// - Without a NUMA column, GPUs with equal CPU lists share a NUMA node, numbered in order of
//   appearance.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/topology.h"

namespace tessera::topology {

struct TopoText {
  Topology topology;
  std::vector<std::string> notes;  // missing or contradictory input, in words for the user
};

// Parses the text. Returns kInvalid with "line 5, column 12: ..." if it is malformed. Lines and
// columns start at 1; columns are counted in bytes.
Result<TopoText> parse_topo_text(std::string_view text);

// Prints in the layout of nvidia-smi, including tabs. Parsing the text again gives the same
// topology, except for what the format cannot express: PCIe paths of NVLink pairs, NVLink and PCIe
// generations.
std::string print_topo_text(const Topology& topology);

}  // namespace tessera::topology
