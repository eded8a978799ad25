// agent/devices/id_choice.h
//
// Chooses the IDs that kubelet should take for a container, so that kubelet's own records contain
// the right device. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/devices/device_kind.h"
#include "agent/devices/kubelet_answers.h"

namespace tessera::agent {

// Returns preference.size IDs, or fewer if fewer are available. Takes IDs in this order: those that
// kubelet must include, those of `wanted` devices, and those of the devices with the most free IDs.
// IDs in `held`, which containers have although kubelet may have forgotten it, come last: first
// those of wanted devices, then those of others.
std::vector<std::string> choose_ids(const Preference& preference, const WantedIds& wanted,
                                    const DeviceKind& kind, const std::set<std::string>& held);

}  // namespace tessera::agent
