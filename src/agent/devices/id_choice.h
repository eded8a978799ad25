// agent/devices/id_choice.h
//
// Which IDs kubelet should take for a container, so that its own books tell the truth about the device. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/devices/kubelet_answers.h"

namespace tessera::agent {

// So many IDs of this device.
using Wanted = std::vector<std::pair<std::string, std::size_t>>;

using DeviceOfId = std::function<std::optional<std::string>(const std::string& id)>;

// Exactly preference.size IDs where so many can be had, those that kubelet insists on first. What `wanted`
// leaves open, or what cannot be had there, comes from the devices that have most to spare. IDs that
// `is_held` says somebody has (kubelet can forget that) are taken last, of a wanted device before those of
// another.
std::vector<std::string> choose_ids(const Preference& preference, const Wanted& wanted,
                                    const DeviceOfId& device_of,
                                    const std::function<bool(const std::string&)>& is_held);

}  // namespace tessera::agent
