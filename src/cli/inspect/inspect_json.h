// cli/inspect/inspect_json.h
//
// The JSON output of `inspect`.
#pragma once

#include <boost/json/value.hpp>

#include "cli/inspect/gpu_nodes.h"
#include "cli/inspect/shares.h"

namespace tessera::cli {

boost::json::value shares_json(const Shares& shares, const std::vector<std::string>& warnings);
boost::json::value gpus_json(const GpuNodes& nodes, const std::vector<std::string>& warnings);

}  // namespace tessera::cli
