// agent/devices/health_report.h
//
// What the cluster is told about the health of a node's devices of one kind. Pure; health_reporter.h sends
// it.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/device_kind.h"
#include "base/clock.h"
#include "base/result.h"

namespace tessera::agent {

// What became of a device.
struct HealthChange {
  enum class Kind { kFellIll, kOtherReason, kRecovered, kGone, kAppeared };
  Kind kind = Kind::kFellIll;
  NodeDevice device;

  friend bool operator==(const HealthChange&, const HealthChange&) = default;
};

// From one look to the next, in the order of the devices. With an empty `before` nothing has appeared: it is
// the first look.
std::vector<HealthChange> health_changes(const std::vector<NodeDevice>& before,
                                         const std::vector<NodeDevice>& after);

// A condition of the Node; its type is KindWords::condition.
struct NodeCondition {
  bool healthy = false;
  std::string reason;   // "AllGPUsHealthy"
  std::string message;  // at most some hundred bytes

  friend bool operator==(const NodeCondition&, const NodeCondition&) = default;
};

// `unlisted`: problems of devices of which not even the name is known.
NodeCondition condition_of(const KindWords& words, const std::vector<NodeDevice>& devices,
                           const std::vector<std::string>& unlisted = {});
// As much of a text as fits a condition.
std::string cut_message(std::string text);

// The strategic merge patch for /status of `node` (an API object); nothing when the condition is there.
Result<std::optional<std::string>> condition_patch(const boost::json::value& node, const std::string& type,
                                                   const NodeCondition& condition, Clock::Wall now);

}  // namespace tessera::agent
