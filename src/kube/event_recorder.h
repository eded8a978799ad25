// kube/event_recorder.h
//
// Writes Kubernetes Events without blocking the caller: record() copies the Event and returns.
// Excess Events are dropped and counted (event_aggregator.h).
#pragma once

#include <chrono>
#include <memory>

#include "kube/client.h"
#include "kube/event_aggregator.h"
#include "kube/event_sink.h"

namespace tessera::kube {

struct EventRecorderOptions {
  EventAggregatorOptions aggregator{};
  // Minimum time between two requests, so that a burst of Events does not delay important requests.
  std::chrono::milliseconds pace{100};
};

class EventRecorder final : public EventSink {
 public:
  // `client` must outlive the recorder. Destroy the recorder on the loop's thread, or when the loop
  // no longer runs.
  EventRecorder(Client& client, EventRecorderOptions options);
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;
  ~EventRecorder() override;

  // Records an Event. Returns false if the Event was dropped. Any thread may call this.
  bool record(const EventNote& note) override;
  [[nodiscard]] EventAggregator::Counts counts() const;
  // Returns whether all recorded Events have been sent or dropped.
  [[nodiscard]] bool idle() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tessera::kube
