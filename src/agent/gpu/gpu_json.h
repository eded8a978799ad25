// agent/gpu/gpu_json.h
//
// What a container has of a GPU, for /allocations. Pure.
#pragma once

#include <boost/json/object.hpp>

#include "agent/devices/allocation.h"
#include "alloc/inventory.h"

namespace tessera::agent {

// {"uuid":"GPU-5d3c...","index":2,"mem":8}. A GPU that is gone has no index.
boost::json::object gpu_json(const alloc::Inventory& inventory, const Share& share);

}  // namespace tessera::agent
