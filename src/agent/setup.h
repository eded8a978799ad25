// agent/setup.h
//
// What a configuration stands for on this machine: files that are there, parts that it chose.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/config.h"
#include "agent/grant_strategy.h"

namespace tessera::agent {

// A directory for files that survive a restart; nothing when it cannot be had, which the log tells.
std::string usable_state_dir(const std::string& path);
// A file in it; nothing when there is no directory.
std::string below(const std::string& directory, const char* name);

// NVIDIA's library: as configured, else below the driver root, else by the loader's own means.
std::string find_nvml(const Paths& paths);

std::unique_ptr<GrantStrategy> make_strategy(const Config& config,
                                             std::function<void(const std::string&)> warn);

}  // namespace tessera::agent
