// agent/devices/id_choice.h
//
// Chooses the IDs that kubelet should take for a container, so that the IDs in kubelet's own
// records belong to the devices that the container gets. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/devices/device_kind.h"
#include "agent/devices/kubelet_answers.h"

namespace tessera::agent {

// Returns preference.size IDs, or fewer if fewer are available. Takes IDs in this order:
//   1. those that kubelet must include
//   2. free IDs of the `wanted` devices, then held IDs of these devices
//   3. free IDs of other devices, beginning with the device that has the most
//   4. held IDs of other devices
// `held` contains the IDs that the agent has recorded for containers of other pods. kubelet offers
// such an ID only if kubelet has seen the end of that container before the agent did, or has
// forgotten the container.
std::vector<std::string> choose_ids(const Preference& preference, const WantedIds& wanted,
                                    const DeviceKind& kind, const std::set<std::string>& held);

}  // namespace tessera::agent
