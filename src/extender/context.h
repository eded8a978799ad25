// extender/context.h
//
// The parts of the extender that most others use. Extender owns them and passes one Context by
// reference.
#pragma once

#include "extender/cluster_state.h"
#include "extender/metrics.h"
#include "kube/client.h"
#include "kube/event_sink.h"

namespace tessera::extender {

struct Context {
  kube::Client& client;
  ClusterState& state;
  kube::EventSink& events;
  Metrics& metrics;
};

}  // namespace tessera::extender
