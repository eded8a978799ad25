// agent/devices/kind_context.h
//
// One kind of device as it is served on this node: the kind, how its devices reach containers, and
// what is allocated. Shared by Admission, StartGate, AllocationRecovery and Plugins; copying it is
// cheap.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "agent/devices/allocation_store.h"
#include "agent/devices/delivery_strategy.h"
#include "agent/devices/device_kind.h"
#include "agent/devices/node_context.h"

namespace tessera::agent {

struct KindContext {
  const NodeContext& node;
  DeviceKind& kind;
  DeliveryStrategy& strategy;
  AllocationStore& store;

  [[nodiscard]] Allocations& allocations() const { return store.allocations(); }

  // What a container needs to reach its shares. Empty where the strategy delivers no devices
  // itself.
  [[nodiscard]] Result<Edits> edits(const std::vector<DeviceShare>& shares) const {
    return strategy.delivers_devices() ? kind.edits(shares) : Edits();
  }
  // Whether the IDs have the form of this kind. Other IDs belong to a plugin that served the
  // resource before.
  [[nodiscard]] bool are_ours(const std::vector<std::string>& ids) const {
    return std::ranges::any_of(ids, [this](const std::string& id) { return kind.device_of(id).has_value(); });
  }
};

}  // namespace tessera::agent
