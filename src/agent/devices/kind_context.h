// agent/devices/kind_context.h
//
// One kind of device on this node, with its delivery strategy and its allocations. Admission,
// StartGate, AllocationRecovery and Plugins share it; it is cheap to copy.
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

  // Returns the changes that give a container access to `shares`; empty if the strategy does not
  // deliver devices.
  [[nodiscard]] Result<Edits> edits(const std::vector<DeviceShare>& shares) const {
    return strategy.delivers_devices() ? kind.edits(shares) : Edits();
  }
  // Returns true if at least one of the IDs has the form of this kind. If none has it, the IDs are
  // from another plugin that served the resource before.
  [[nodiscard]] bool are_ours(const std::vector<std::string>& ids) const {
    return std::ranges::any_of(ids, [this](const std::string& id) { return kind.device_of(id).has_value(); });
  }
};

}  // namespace tessera::agent
