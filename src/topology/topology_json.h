// topology/topology_json.h
//
// Our own form of a topology, for the node annotation tessera.io/inventory and for files:
//
//   {"v":1, "gpus":8,
//    "links":["NV1:2/PIX NV1:2/PHB 2*NV2:2 3*SYS", ..., "NV2:2/PIX"],
//    "numa":["0","0","0","0","1","1","1","1"],
//    "cpus":["0-19,40-59", ...],
//    "nics":[{"name":"NIC0","device":"mlx5_0","paths":"2*PIX 2*PHB 4*SYS"}],
//    "pcie":3, "socket_mbps":6000}
//
// links[i] holds GPU i's links to i+1 .. n-1 (full_name() of link.h), equal neighbours written once as
// count*name, so that 16 GPUs take a few hundred bytes behind NVSwitches and 3 KiB in the worst case. What is
// not known is left out; "gpu_memory_numa" appears on machines where GPU memory is a NUMA node.
#pragma once

#include <boost/json/value.hpp>

#include "base/json_reader.h"
#include "base/result.h"
#include "topology/topology.h"

namespace tessera::topology {

// Deterministic: equal topologies give equal text.
boost::json::value to_json(const Topology& topology);

// Refuses other versions, missing or excess entries and nonsense, naming the field. Fields we do not know are
// ignored, so that later versions of "v":1 may add some.
Result<Topology> topology_from_json(const JsonReader& reader);

}  // namespace tessera::topology
