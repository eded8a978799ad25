// agent/devices/id_choice.h
//
// Chooses the IDs that kubelet should take for a container, so that kubelet's own records name the
// right device. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/devices/device_kind.h"
#include "agent/devices/kubelet_answers.h"

namespace tessera::agent {

// Returns preference.size IDs where that many are available, beginning with those that kubelet
// insists on. What `wanted` leaves open, or what is not available there, comes from the devices
// with most free IDs. IDs in `held` (containers have them; kubelet can forget that) are taken last:
// those of a wanted device before those of another.
std::vector<std::string> choose_ids(const Preference& preference, const WantedIds& wanted,
                                    const DeviceKind& kind, const std::set<std::string>& held);

}  // namespace tessera::agent
