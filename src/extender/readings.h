// extender/readings.h
//
// The metrics that the extender reads from its parts when /metrics is requested. metrics.h has the
// metrics that it counts when something happens. docs/reference.md lists every name.
#pragma once

#include <string>

#include "daemon/readings.h"
#include "extender/binder.h"
#include "extender/cluster_state.h"
#include "kube/reflector.h"

namespace tessera::extender {

// Adds the numbers of nodes, GPUs and pods, and of their problems by kind.
void add_ledger_readings(const ClusterState& state, daemon::Readings& readings);
void add_bind_readings(const Binder& binder, daemon::Readings& readings);
// Adds the failures of the watch on `resource` ("nodes").
void add_watch_readings(const std::string& resource, const kube::Reflector& watch,
                        daemon::Readings& readings);

}  // namespace tessera::extender
