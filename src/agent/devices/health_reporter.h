// agent/devices/health_reporter.h
//
// Tells the cluster when a device falls ill, recovers, comes or goes: an Event on the node and on each pod
// that uses the device, and a condition of the node. Only changes are told, also across a restart of the
// agent where it is known what was told before. A condition that others changed is put right within a minute.
//
//   HealthReporter health(client, {.node = "gpu-a", .words = kind.words()}, tell, holders, before);
//   health.report(kind.devices());             // at every change
//
// On the event loop's thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/devices/health_report.h"
#include "agent/devices/object_keeper.h"
#include "kube/client.h"
#include "kube/event_aggregator.h"

namespace tessera::agent {

struct HealthReporterOptions {
  std::string node;
  KindWords words;
  bool condition = true;
  std::chrono::milliseconds look_again{60'000};
  kube::BackoffOptions backoff = ObjectKeeperOptions{}.backoff;
};

class HealthReporter {
 public:
  using Tell = std::function<void(const kube::EventNote&)>;
  // The pods that have this device.
  using Holders = std::function<std::vector<kube::ObjectReference>(const std::string& device)>;

  // `before`: what the process before this one told; empty when that is not known. `client` must outlive it.
  HealthReporter(kube::Client& client, HealthReporterOptions options, Tell tell, Holders holders,
                 std::vector<NodeDevice> before = {});
  HealthReporter(const HealthReporter&) = delete;
  HealthReporter& operator=(const HealthReporter&) = delete;

  // `before` was found only now. Before the first report.
  void set_before(std::vector<NodeDevice> before) { told_ = std::move(before); }

  void report(const std::vector<NodeDevice>& devices) {
    tell_changes(devices);
    set_condition(condition_of(options_.words, devices));
  }

  // The two halves of it, for a kind that knows more than its devices say.
  void tell_changes(const std::vector<NodeDevice>& devices);
  void set_condition(NodeCondition condition);
  // An Event on the node.
  void tell_node(bool warning, const std::string& reason, const std::string& message);

  // Whether the condition is written, and if not, why.
  [[nodiscard]] const ObjectKeeper::State& condition_state() const { return condition_keeper_.state(); }

 private:
  void tell_change(const HealthChange& change);
  void tell_holders(const NodeDevice& device, const std::string& message);
  [[nodiscard]] Result<std::optional<kube::Request>> mend(const boost::json::value* node,
                                                          Clock::Wall now) const;

  const HealthReporterOptions options_;
  Tell tell_;
  Holders holders_;
  std::vector<NodeDevice> told_;  // what the cluster knows
  std::optional<NodeCondition> condition_;
  ObjectKeeper condition_keeper_;
};

}  // namespace tessera::agent
