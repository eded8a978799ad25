// agent/devices/node_context.h
//
// The objects that all parts of the agent share. Built once and passed by reference. The objects
// outlive all parts. Tests use fakes of EventSink, PodResources, PodFetch and CheckpointReader.
#pragma once

#include <string>

#include "agent/devices/checkpoint.h"
#include "agent/devices/node_pods.h"
#include "agent/devices/pod_fetch.h"
#include "agent/devices/pod_resources.h"
#include "alloc/names.h"
#include "http/event_loop.h"
#include "kube/client.h"
#include "kube/event_sink.h"

namespace tessera::agent {

struct NodeContext {
  std::string node;  // the name of the Node object
  http::EventLoop& loop;
  kube::Client& client;
  kube::EventSink& events;
  NodePods& pods;
  PodResources& pod_resources;
  PodFetch& pod_fetch;
  const CheckpointReader& checkpoints;
  const alloc::ResourceNames& names;

  // Records a warning Event about a pod.
  void warn_pod(const NodePod& pod, const std::string& reason, const std::string& message) const {
    events.record(kube::EventNote::about_pod(pod.spec.namespace_name, pod.spec.name, pod.spec.uid)
                      .as_warning(reason, message));
  }
};

}  // namespace tessera::agent
