// agent/devices/health_reporter.h
//
// Reports to the cluster that a device became unhealthy, recovered, appeared or is gone. Writes
// Events on the node and on the pods that use the device, and a condition of the Node.
//
// Events are written only for changes. After a restart of the agent, a change is a difference from
// `before`, the state that the earlier process reported. If another client changes the condition,
// the reporter restores it within a minute.
//
//   HealthReporter health(node, store.allocations(), {.info = kind.info()}, before);
//   health.report(kind.devices());             // after every change
//
// All calls are made on the event loop's thread.
#pragma once

#include <boost/json/value.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/devices/allocations.h"
#include "agent/devices/device_kind.h"
#include "agent/devices/node_context.h"
#include "agent/devices/object_reconciler.h"
#include "base/clock.h"
#include "base/result.h"

namespace tessera::agent {

// A change of a device, which Events report. kOtherReason: the device stays unhealthy, but the cause has
// changed. The cause is the part of the reason before the first "; ". Later parts are consequences: the
// reason "XID 79" becomes "XID 79; the driver asks for a GPU reset" at the next probe. The condition
// shows the consequences, and they need no second Event.
struct HealthChange {
  enum class Kind { kUnhealthy, kOtherReason, kRecovered, kGone, kAppeared };
  Kind kind = Kind::kUnhealthy;
  NodeDevice device;

  friend bool operator==(const HealthChange&, const HealthChange&) = default;
};

// Returns the changes from one state to the next, in the order of the devices. If `before` is
// empty, this is the first report, and no device counts as appeared. Pure.
std::vector<HealthChange> health_changes(const std::vector<NodeDevice>& before,
                                         const std::vector<NodeDevice>& after);

// A condition of the Node; its type is KindInfo::condition.
struct NodeCondition {
  bool healthy = false;
  std::string reason;   // "AllGPUsHealthy"
  std::string message;  // at most about 900 bytes

  friend bool operator==(const NodeCondition&, const NodeCondition&) = default;
};

// Returns the condition for these devices. `unlisted` has the problems of further devices, which
// are not in `devices` because their names are unknown. Pure.
NodeCondition condition_of(const KindInfo& info, const std::vector<NodeDevice>& devices,
                           const std::vector<std::string>& unlisted = {});
// Cuts a text to the maximum length of NodeCondition::message.
std::string cut_message(std::string text);

// Returns the strategic merge patch for /status of `node`, a Node object. Returns nullopt if the
// node already has the condition. Fails if the status in `node` is malformed. Pure.
Result<std::optional<std::string>> condition_patch(const boost::json::value& node, const std::string& type,
                                                   const NodeCondition& condition, Clock::Wall now);

struct HealthReporterOptions {
  KindInfo info;
  bool condition = true;
  std::chrono::milliseconds recheck_every{60'000};
  kube::BackoffOptions backoff = ObjectReconcilerOptions{}.backoff;
};

class HealthReporter {
 public:
  // `allocations` contains the pods that use a device. `before` is the state that an earlier
  // process reported; empty if that is unknown. `node` and `allocations` must outlive the reporter.
  HealthReporter(const NodeContext& node, const Allocations& allocations, HealthReporterOptions options,
                 std::vector<NodeDevice> before = {});
  HealthReporter(const HealthReporter&) = delete;
  HealthReporter& operator=(const HealthReporter&) = delete;

  // Sets `before` after construction. Call it before the first report.
  void set_before(std::vector<NodeDevice> before) { reported_ = std::move(before); }

  void report(const std::vector<NodeDevice>& devices) {
    report_changes(devices);
    set_condition(condition_of(options_.info, devices));
  }

  // The two halves of report(), for a kind that builds the condition itself.
  void report_changes(const std::vector<NodeDevice>& devices);
  void set_condition(NodeCondition condition);

  // Returns whether the condition is written and, if not, why.
  [[nodiscard]] const ObjectReconciler::State& condition_state() const {
    return condition_reconciler_.state();
  }

 private:
  void report_change(const HealthChange& change);
  void warn_holders(const NodeDevice& device, const std::string& message);
  [[nodiscard]] Result<std::optional<kube::Request>> reconcile(const boost::json::value* object) const;

  const NodeContext& node_;
  const Allocations& allocations_;
  const HealthReporterOptions options_;
  std::vector<NodeDevice> reported_;
  std::optional<NodeCondition> condition_;
  ObjectReconciler condition_reconciler_;
};

}  // namespace tessera::agent
