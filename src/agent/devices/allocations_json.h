// agent/devices/allocations_json.h
//
// Builds the body of /allocations, which lists the devices of each container of this node. Pure.
//
//   {"node":"gpu-a","unit":"GiB","allocations":[
//     {"namespace":"ml","pod":"train-7","uid":"5b0c...","container":"main",
//      "gpus":[{"uuid":"GPU-5d3c1b2a-...","index":2,"mem":2}],
//      "ids":{"aliyun.com/gpu-mem":["5d3c1b2a-0","5d3c1b2a-1"]},
//      "held":"why the container may not start yet"}]}
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "agent/devices/allocation.h"

namespace tessera::agent {

// An allocation, and its shares as JSON. Each kind of device has its own format of shares.
struct ListedAllocation {
  Allocation allocation;
  boost::json::array shares;
};

// The allocations of one kind of device.
struct ListedKind {
  std::string key;  // JSON key of the list of shares: "gpus"
  std::vector<ListedAllocation> allocations;
};

// Returns a JSON object: the fields in `about`, which describe the node, followed by the
// allocations, sorted by namespace, pod and container.
std::string allocations_json(boost::json::object about, const std::vector<ListedKind>& kinds);

}  // namespace tessera::agent
