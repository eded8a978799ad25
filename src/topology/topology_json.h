// topology/topology_json.h
//
// JSON format of a topology, for the node annotation tessera.io/inventory and for files:
//
//   {"v":1, "gpus":8,
//    "links":["NV1:2/PIX NV1:2/PHB 2*NV2:2 3*SYS", ..., "NV2:2/PIX"],
//    "numa":["0","0","0","0","1","1","1","1"],
//    "cpus":["0-19,40-59", ...],
//    "nics":[{"name":"NIC0","device":"mlx5_0","paths":"2*PIX 2*PHB 4*SYS"}],
//    "pcie":3, "socket_mbps":6000}
//
// links[i] has the links of GPU i to GPUs i+1 .. n-1, as printed by full_name() of link.h. Repeated
// links are written as count*name, so that 16 GPUs take a few hundred bytes with NVSwitches and 3
// KiB in the worst case. Unknown facts are omitted. "gpu_memory_numa" is present on machines where
// GPU memory is a NUMA node.
#pragma once

#include <boost/json/value.hpp>

#include "base/json_reader.h"
#include "base/result.h"
#include "topology/topology.h"

namespace tessera::topology {

// Equal topologies give equal text.
boost::json::value to_json(const Topology& topology);

// Returns kInvalid, with the name of the field, for other versions, missing or extra entries and
// invalid values. Unknown fields are ignored, so that later releases can add fields to "v":1.
Result<Topology> topology_from_json(const JsonReader& reader);

}  // namespace tessera::topology
