// agent/id_choice.h
//
// Which IDs kubelet should take for a container, so that its own books tell the truth about the GPU. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "agent/device_kind.h"
#include "agent/gpu_ids.h"

namespace tessera::agent {

// So many IDs of this GPU.
using Wanted = std::vector<std::pair<std::string, std::size_t>>;

// Exactly preference.size IDs where so many can be had, those that kubelet insists on first. What `wanted`
// leaves open, or what cannot be had there, comes from the GPUs that have most to spare. IDs that `is_held`
// says somebody has (kubelet can forget that) are taken last, of a wanted GPU before those of another.
std::vector<std::string> choose_ids(const Preference& preference, const Wanted& wanted, const GpuIds& ids,
                                    const std::function<bool(const std::string&)>& is_held);

}  // namespace tessera::agent
