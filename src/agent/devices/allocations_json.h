// agent/devices/allocations_json.h
//
// What /allocations answers: who holds what on this node, for audits. Pure.
//
//   {"node":"gpu-a","unit":"GiB","allocations":[
//     {"namespace":"ml","pod":"train-7","uid":"5b0c...","container":"main",
//      "gpus":[{"uuid":"GPU-5d3c...","index":2,"mem":8}],
//      "ids":{"aliyun.com/gpu-mem":["2-0","2-1"]},"held":"why it may not start"}]}
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <vector>

#include "agent/devices/allocation.h"

namespace tessera::agent {

// What was given of one kind of device.
struct ListedKind {
  std::string key;  // "gpus"
  std::vector<Allocation> allocations;
  std::function<boost::json::object(const Share&)> share_json;
};

// In the order of namespace, pod and container. `about`: what is said of the node before the list.
std::string allocations_json(boost::json::object about, const std::vector<ListedKind>& kinds);

}  // namespace tessera::agent
