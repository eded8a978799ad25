// agent/devices/readings.h
//
// Metrics that all kinds of devices have: resources, kubelet's calls, writes to the API server.
// docs/reference.md lists every name. Pure.
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
#include "daemon/readings.h"

namespace tessera::agent {

class Readings : public daemon::Readings {
 public:
  // Adds the results of Allocate and of the container lookups.
  void add_admissions(const AdmissionCounts& admissions, const LookupCounts& lookups);
  void add_starts(const StartCounts& starts);
  void add_resources(const std::vector<Plugins::Resource>& resources);
  // Adds the states of the objects that the agent writes to the API server, by the name of the
  // object: {"inventory", state}, ...
  void add_objects(const std::vector<std::pair<std::string, ObjectReconciler::State>>& objects);
};

}  // namespace tessera::agent
