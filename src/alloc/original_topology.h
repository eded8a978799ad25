// alloc/original_topology.h
//
// The links between the GPUs of a node, as the original topology plugins publish them in annotations
// of the Node. There are two designs:
//
//   GPU_TOPOLOGY: {"GPU_NV1_0_1":"Single NVLink","GPU_SYS_0_4":"Cross CPU socket"}
//   GSOC_DEV_0_1: "7"        one annotation for each pair, the link class as a number
//
// The numbers are NVML indices. tessera-agent writes both designs as well, for tools that read them
// (Inventory::original_annotations). On a node with an inventory they are not read.
#pragma once

#include "alloc/node.h"
#include "base/result.h"
#include "topology/topology.h"

namespace tessera::alloc {

// Reads the links of a node with `gpus` GPUs: GPU_TOPOLOGY or, without it, GSOC_DEV_<i>_<j>. A pair
// that the annotations do not name has an unknown link, because the original plugins omit pairs. The
// annotations do not contain the generation of NVLinks, so it is inferred (topo_infer.h). Returns
// kInvalid, with the annotation, if one is malformed, names a GPU that the node does not have, or
// contradicts another one.
Result<topology::Topology> original_topology(const OriginalNode& node, unsigned gpus);

}  // namespace tessera::alloc
