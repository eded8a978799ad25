// agent/agent_parts.h
//
// The inside of an Agent: its parts, and what is known beside them. Only agent.cc and agent_parts.cc include
// it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "agent/agent.h"
#include "agent/devices/node_pods.h"
#include "agent/devices/observer.h"
#include "agent/devices/pod_fetch.h"
#include "agent/devices/pod_resources.h"
#include "agent/gpu/node_gpus.h"
#include "http/server.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/reflector.h"

namespace tessera::agent {

struct Agent::Parts {
  Parts(http::EventLoop& loop_, Config config_, kube::Client client_);

  NodeGpus::Edges kind_edges();
  NodeGpusOptions gpu_options();
  Observer::Sources observer_sources();
  void add_readings(Readings& readings) const;
  [[nodiscard]] std::string allocations_text() const;
  Status serve();
  void look_around();
  [[nodiscard]] std::string not_ready() const;

  http::EventLoop& loop;
  Config config;
  const alloc::ResourceNames names;
  kube::Client client;
  kube::EventRecorder recorder;
  PodResources pod_resources;
  NodePods pods;
  PodFetch pod_fetch;
  kube::Reflector pod_watch;
  Observer observer;
  std::optional<http::Server> server;
  bool said_ready = false;
  http::Timer look;
  Clock::Steady began{};
  NodeGpus gpus;  // last: it calls into the others
};

}  // namespace tessera::agent
