// kube/event_sink.h
//
// The interface for recording Kubernetes Events. The agent and the extender record Events through
// it. EventRecorder (event_recorder.h) sends them to the API server; tests collect them.
//
//   events.record(EventNote::about_node("gpu-a").as_warning("GpuGone", "GPU 3 is no longer ..."));
#pragma once

#include "kube/event_aggregator.h"

namespace tessera::kube {

class EventSink {
 public:
  virtual ~EventSink() = default;

  // Never blocks. Returns false if the Event was dropped, for example because there are too many.
  virtual bool record(const EventNote& note) = 0;
};

}  // namespace tessera::kube
