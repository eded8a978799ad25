// agent/allocations_json.h
//
// What /allocations answers: who holds what on this node, for audits. Pure.
//
//   {"node":"gpu-a","unit":"GiB","allocations":[
//     {"namespace":"ml","pod":"train-7","uid":"5b0c...","container":"main",
//      "gpus":[{"uuid":"GPU-5d3c...","index":2,"mem":8}],
//      "ids":{"aliyun.com/gpu-mem":["2-0","2-1"]},"held":"why it may not start"}]}
#pragma once

#include <string>
#include <vector>

#include "agent/allocation.h"
#include "alloc/inventory.h"

namespace tessera::agent {

// In the order of namespace, pod and container. A GPU that is gone has no index.
std::string allocations_json(const std::string& node, const alloc::Inventory& inventory,
                             std::vector<Allocation> allocations);

}  // namespace tessera::agent
