// agent/devices/readings.h
//
// Metrics of any kind of device: resources, answers to kubelet, writes to the API server.
// docs/agent.md lists every name. Pure.
//
//   Readings all;
//   all.add_resources(plugins.resources());
//   metrics.text(all.take());
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "agent/devices/admission.h"
#include "agent/devices/container_lookup.h"
#include "agent/devices/object_reconciler.h"
#include "agent/devices/plugins.h"
#include "agent/devices/start_gate.h"
#include "http/readings.h"
#include "kube/event_aggregator.h"

namespace tessera::agent {

class Readings {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  void gauge(std::string name, std::string help, double value, Labels labels = {});
  // Several with the same name and labels are added up.
  void counter(std::string name, std::string help, std::uint64_t value, Labels labels = {});

  // How Allocate was answered, and how the container was found.
  void add_admissions(const AdmissionCounts& admissions, const LookupCounts& lookups);
  void add_starts(const StartCounts& starts);
  void add_resources(const std::vector<Plugins::Resource>& resources);
  // Objects that the agent writes to the API server: {"inventory", state}, ...
  void add_objects(const std::vector<std::pair<std::string, ObjectReconciler::State>>& objects);
  void add_events(const kube::EventAggregator::Counts& events);
  void add_server(const http::ServerStats& stats);

  // Returns all readings, sorted by name.
  [[nodiscard]] std::vector<http::Reading> take();

 private:
  std::vector<http::Reading> all_;
};

}  // namespace tessera::agent
