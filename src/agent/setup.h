// agent/setup.h
//
// What a configuration stands for on this machine: files that are there, parts that it chose.
#pragma once

#include <memory>

#include "agent/config.h"
#include "agent/devices/grant_strategy.h"
#include "agent/gpu/node_gpus.h"

namespace tessera::agent {

// For the GPUs of this node. A state directory that cannot be had is told in the log.
NodeGpusOptions gpu_options(const Config& config);

// How containers get their GPUs.
std::unique_ptr<GrantStrategy> make_strategy(const Config& config);

}  // namespace tessera::agent
