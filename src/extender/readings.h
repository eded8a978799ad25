// extender/readings.h
//
// Metrics that are read from the parts of the extender when /metrics is called. metrics.h has those
// that are counted as things happen. docs/reference.md lists every name.
#pragma once

#include <string>

#include "daemon/readings.h"
#include "extender/binder.h"
#include "extender/cluster_state.h"
#include "kube/reflector.h"

namespace tessera::extender {

// Nodes, GPUs and pods, and what is wrong with them.
void add_ledger_readings(const ClusterState& state, daemon::Readings& readings);
void add_bind_readings(const Binder& binder, daemon::Readings& readings);
// Failures of the watch on `resource` ("nodes").
void add_watch_readings(const std::string& resource, const kube::Reflector& watch,
                        daemon::Readings& readings);

}  // namespace tessera::extender
