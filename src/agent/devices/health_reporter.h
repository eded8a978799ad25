// agent/devices/health_reporter.h
//
// Reports to the cluster when a device becomes unhealthy, recovers, appears or is gone: an Event on
// the node and on each pod that uses the device, and a condition of the Node. Only changes are
// reported, also across a restart of the agent if it is known what was reported before. A condition
// that another client changed is reconciled within a minute.
//
//   HealthReporter health(node, store.allocations(), {.info = kind.info()}, before);
//   health.report(kind.devices());             // at every change
//
// On the event loop's thread.
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

// What happened to a device.
struct HealthChange {
  enum class Kind { kUnhealthy, kOtherReason, kRecovered, kGone, kAppeared };
  Kind kind = Kind::kUnhealthy;
  NodeDevice device;

  friend bool operator==(const HealthChange&, const HealthChange&) = default;
};

// The changes from one state to the next, in the order of the devices. An empty `before` means the
// first look: then no device counts as appeared. Pure.
std::vector<HealthChange> health_changes(const std::vector<NodeDevice>& before,
                                         const std::vector<NodeDevice>& after);

// A condition of the Node; its type is KindInfo::condition.
struct NodeCondition {
  bool healthy = false;
  std::string reason;   // "AllGPUsHealthy"
  std::string message;  // at most about 900 bytes

  friend bool operator==(const NodeCondition&, const NodeCondition&) = default;
};

// `unlisted`: problems of devices whose name is not known. Pure.
NodeCondition condition_of(const KindInfo& info, const std::vector<NodeDevice>& devices,
                           const std::vector<std::string>& unlisted = {});
// Cuts a text to the length of a condition's message.
std::string cut_message(std::string text);

// Returns the strategic merge patch for /status of `node` (an API object); nothing when the
// condition is already there. Pure.
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
  // `allocations` tells the pods that use a device. `before`: what an earlier process reported;
  // empty when that is not known. `node` and `allocations` must outlive it.
  HealthReporter(const NodeContext& node, const Allocations& allocations, HealthReporterOptions options,
                 std::vector<NodeDevice> before = {});
  HealthReporter(const HealthReporter&) = delete;
  HealthReporter& operator=(const HealthReporter&) = delete;

  // Sets `before` later. Call it before the first report.
  void set_before(std::vector<NodeDevice> before) { reported_ = std::move(before); }

  void report(const std::vector<NodeDevice>& devices) {
    report_changes(devices);
    set_condition(condition_of(options_.info, devices));
  }

  // The two halves of report(), for a kind that knows more than its devices say.
  void report_changes(const std::vector<NodeDevice>& devices);
  void set_condition(NodeCondition condition);

  // Whether the condition is written, and if not, why.
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
