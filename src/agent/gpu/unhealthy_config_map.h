// agent/gpu/unhealthy_config_map.h
//
// The ConfigMap by which old extenders learn which GPUs must not be used. Pure; gpu_health.h keeps it.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "kube/request.h"

namespace tessera::agent {

std::string unhealthy_config_map_name(const std::string& node);

// What to do about the ConfigMap unhealthy-gpu-<node> (null: there is none), for this list of indices. It
// exists only while a GPU is ill: those extenders take an empty list for GPU 0. One that somebody else made
// is left alone.
Result<std::optional<kube::Request>> mend_config_map(const boost::json::value* config_map,
                                                     const std::string& namespace_name,
                                                     const std::string& node, const std::string& indices);

}  // namespace tessera::agent
