// agent/setup.h
//
// Turns a configuration into options of the agent's parts.
#pragma once

#include <memory>

#include "agent/config.h"
#include "agent/devices/grant_strategy.h"
#include "agent/gpu/node_gpus.h"

namespace tessera::agent {

// Returns the options for the GPUs of this node. Creates the state directory, and logs an error if
// it cannot.
NodeGpusOptions gpu_options(const Config& config);

// Returns the strategy that the configuration names.
std::unique_ptr<GrantStrategy> make_strategy(const Config& config);

}  // namespace tessera::agent
